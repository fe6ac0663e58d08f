-- Pipelining for wrk: one call of request() gives as many requests as the
-- first argument says, to be sent in one write.
local batch

function init(args)
	local requests = {}
	for i = 1, tonumber(args[1]) do
		requests[i] = wrk.format()
	end
	batch = table.concat(requests)
end

function request()
	return batch
end

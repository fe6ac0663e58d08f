# A Rack application: PLANT sleep waits for PLANT_N ms, cpu makes PLANT_N steps
# of interpreted work.
n = Integer(ENV.fetch("PLANT_N"))
work = {
  "sleep" => -> { sleep(n / 1000.0) },
  "cpu" => -> { x = 1; n.times { |i| x = (x * 31 + i) & 0xFFFFFFFF } },
}.fetch(ENV.fetch("PLANT"))
run ->(_) { work.call; [200, { "content-type" => "text/plain", "content-length" => "5" }, ["done\n"]] }

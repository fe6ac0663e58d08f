output "ssh" {
  description = "How to reach each machine."
  value       = { for name, machine in aws_instance.machine : name => "ssh admin@${machine.public_ip}" }
}

output "controller_host" {
  description = "For start.sh."
  value       = "admin@${aws_instance.machine["controller"].public_ip}"
}

output "agent_hosts" {
  description = "For start.sh and ../../ssh/place.sh: where agents go, the server's first, which observes."
  value       = join(" ", [for name in concat(["server"], [for i in range(var.load_machines) : "load-${i + 1}"]) : "admin@${aws_instance.machine[name].public_ip}"])
}

output "server_address" {
  description = "Where the agents find the server: inside the group."
  value       = aws_instance.machine["server"].private_ip
}

output "join_address" {
  description = "Where the controller listens for agents, inside the group. The token is the controller's own; start.sh carries it over ssh, so that it stands neither here nor in user data."
  value       = "nats://${aws_instance.machine["controller"].private_ip}:4222"
}

output "start" {
  description = "What to run next."
  value       = "./start.sh /path/to/ceiling"
}

output "slowest_link_gbps" {
  description = "No result of this group may be read beyond it: the server's link, or the load machines' together."
  value       = min(local.machine_types[var.server_type].network_gbps, local.machine_types[var.load_type].network_gbps * var.load_machines)
}

output "quota_vcpus" {
  description = "What the account must be allowed in the region: the quota Running On-Demand Standard instances (L-1216C47A), in vCPUs. A new account has less."
  value       = sum([for machine in local.machines : local.machine_types[machine.type].vcpus])
}

output "max_minutes" {
  description = "From their first boot the machines live so long."
  value       = var.max_minutes
}

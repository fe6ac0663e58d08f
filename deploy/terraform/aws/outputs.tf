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

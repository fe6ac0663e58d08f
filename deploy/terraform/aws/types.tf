# The table of machine types. network_gbps is the steady rate of AWS's list and
# burst_gbps the "up to" of the smaller ones, which lasts for minutes; vcpus and
# burst_gbps are compared with what AWS says at every plan. README.md says when
# to take which. A further type is a further row: it has to be of the
# current generations that may stand in a cluster placement group.
locals {
  machine_types = {
    "c6i.xlarge"    = { vcpus = 4, network_gbps = 1.562, burst_gbps = 12.5, arch = "x86_64" }
    "c6i.2xlarge"   = { vcpus = 8, network_gbps = 3.125, burst_gbps = 12.5, arch = "x86_64" }
    "c6i.4xlarge"   = { vcpus = 16, network_gbps = 6.25, burst_gbps = 12.5, arch = "x86_64" }
    "c6i.8xlarge"   = { vcpus = 32, network_gbps = 12.5, burst_gbps = 12.5, arch = "x86_64" }
    "c6in.8xlarge"  = { vcpus = 32, network_gbps = 50, burst_gbps = 50, arch = "x86_64" }
    "c8i.32xlarge"  = { vcpus = 128, network_gbps = 50, burst_gbps = 50, arch = "x86_64" }
    "c6in.16xlarge" = { vcpus = 64, network_gbps = 100, burst_gbps = 100, arch = "x86_64" }
    "c7gn.16xlarge" = { vcpus = 64, network_gbps = 200, burst_gbps = 200, arch = "arm64" }
    "c8gn.large"    = { vcpus = 2, network_gbps = 6.25, burst_gbps = 30, arch = "arm64" }
    "c8gn.16xlarge" = { vcpus = 64, network_gbps = 200, burst_gbps = 200, arch = "arm64" }
    "c6in.large"    = { vcpus = 2, network_gbps = 3.125, burst_gbps = 25, arch = "x86_64" } # the controller's
  }

  # controller: NATS and whoever types; its 2 vCPUs make no load.
  machines = merge(
    {
      controller = { type = "c6in.large", role = "controller" }
      server     = { type = var.server_type, role = "server" }
    },
    { for i in range(var.load_machines) : "load-${i + 1}" => { type = var.load_type, role = "load" } },
  )

  types_used = toset([for machine in local.machines : machine.type])
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

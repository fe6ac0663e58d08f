# The table of machine types. network_gbps is the steady rate of AWS's list and
# burst_gbps the "up to" of the smaller ones, which lasts for minutes; vcpus and
# burst_gbps are compared with what AWS says at every plan. README.md says when
# to take which. A further type is a further row: it has to be of the
# current generations that may stand in a cluster placement group.
locals {
  machine_types = {
    "c6i.4xlarge"   = { vcpus = 16, network_gbps = 6.25, burst_gbps = 12.5, arch = "x86_64" }
    "c6i.8xlarge"   = { vcpus = 32, network_gbps = 12.5, burst_gbps = 12.5, arch = "x86_64" }
    "c6in.8xlarge"  = { vcpus = 32, network_gbps = 50, burst_gbps = 50, arch = "x86_64" }
    "c8i.32xlarge"  = { vcpus = 128, network_gbps = 50, burst_gbps = 50, arch = "x86_64" }
    "c6in.16xlarge" = { vcpus = 64, network_gbps = 100, burst_gbps = 100, arch = "x86_64" }
    "c7gn.16xlarge" = { vcpus = 64, network_gbps = 200, burst_gbps = 200, arch = "arm64" }
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

data "aws_ec2_instance_type" "used" {
  for_each      = local.types_used
  instance_type = each.value

  lifecycle {
    precondition {
      condition     = contains(keys(local.machine_types), each.value)
      error_message = "${each.value} is not in the table of machines.tf, which has ${join(", ", keys(local.machine_types))}."
    }
    postcondition {
      condition     = self.default_vcpus == try(local.machine_types[each.value].vcpus, 0)
      error_message = "machines.tf gives ${each.value} ${try(local.machine_types[each.value].vcpus, 0)} vCPUs, AWS ${self.default_vcpus}: mend the table."
    }
    postcondition {
      condition     = try(tonumber(regex("[0-9.]+", self.network_performance)), 0) == try(local.machine_types[each.value].burst_gbps, 0)
      error_message = "machines.tf gives ${each.value} ${try(local.machine_types[each.value].burst_gbps, 0)} Gbit/s, AWS says ${self.network_performance}: mend the table."
    }
    postcondition {
      condition     = contains(self.supported_architectures, try(local.machine_types[each.value].arch, ""))
      error_message = "machines.tf calls ${each.value} ${try(local.machine_types[each.value].arch, "?")}, AWS ${join(", ", self.supported_architectures)}: mend the table."
    }
  }
}

# Debian 13: kernel 6.12, the first on which a ring can wait for n completions
# but no longer than a given time. The owner is Debian's own account.
data "aws_ami" "debian" {
  for_each    = toset([for name in local.types_used : try(local.machine_types[name].arch, "x86_64")])
  most_recent = true
  owners      = ["136693071363"]

  filter {
    name   = "name"
    values = ["debian-13-*"]
  }
  filter {
    name   = "architecture"
    values = [each.value]
  }
  filter {
    name   = "virtualization-type"
    values = ["hvm"]
  }
}

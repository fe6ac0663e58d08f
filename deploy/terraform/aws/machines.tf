data "aws_ec2_instance_type" "used" {
  for_each      = local.types_used
  instance_type = each.value

  lifecycle {
    postcondition {
      condition     = self.default_vcpus == local.machine_types[each.value].vcpus
      error_message = "types.tf gives ${each.value} ${local.machine_types[each.value].vcpus} vCPUs, AWS ${self.default_vcpus}: correct the table."
    }
    postcondition {
      condition     = try(tonumber(regex("[0-9.]+", self.network_performance)), 0) == local.machine_types[each.value].burst_gbps
      error_message = "types.tf gives ${each.value} ${local.machine_types[each.value].burst_gbps} Gbit/s, AWS says ${self.network_performance}: correct the table."
    }
    postcondition {
      condition     = contains(self.supported_architectures, local.machine_types[each.value].arch)
      error_message = "types.tf calls ${each.value} ${local.machine_types[each.value].arch}, AWS ${join(", ", self.supported_architectures)}: correct the table."
    }
  }
}

# Debian 13: kernel 6.12, the first on which a ring can wait for n completions
# but no longer than a given time. The owner is Debian's own account.
data "aws_ami" "debian" {
  for_each    = toset([for name in local.types_used : local.machine_types[name].arch])
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

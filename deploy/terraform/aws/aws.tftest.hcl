# terraform init && terraform test: what apply would make, by the AWS provider's own
# schema and without an account. A mocked data source has no figures of AWS, so those of the
# table are given here for the default types.

mock_provider "aws" {
  mock_data "aws_availability_zones" {
    defaults = { names = ["eu-central-1a", "eu-central-1b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

override_data {
  target = data.aws_ec2_instance_type.used["c6in.8xlarge"]
  values = { default_vcpus = 32, network_performance = "50 Gigabit", supported_architectures = ["x86_64"], instance_type = "c6in.8xlarge" }
}

override_data {
  target = data.aws_ec2_instance_type.used["c6in.large"]
  values = { default_vcpus = 2, network_performance = "Up to 25 Gigabit", supported_architectures = ["x86_64"], instance_type = "c6in.large" }
}

variables {
  region     = "eu-central-1"
  admin_cidr = "203.0.113.7/32"
  public_key = "ssh-ed25519 AAAAC3Nza admin"
}

run "machines" {
  command = plan

  assert {
    condition     = sort(keys(aws_instance.machine)) == tolist(["controller", "load-1", "load-2", "server"])
    error_message = "not a controller, a server and two for load"
  }
  assert {
    condition     = alltrue([for name, m in aws_instance.machine : m.placement_group == "ceiling" if name != "controller"])
    error_message = "a server or load machine outside the placement group"
  }
  assert {
    condition     = alltrue([for m in values(aws_instance.machine) : m.instance_initiated_shutdown_behavior == "terminate"])
    error_message = "a machine would outlive its timer"
  }
}

run "nothing_is_open" {
  command = plan

  assert {
    condition     = aws_vpc_security_group_ingress_rule.ssh.cidr_ipv4 == "203.0.113.7/32" && aws_vpc_security_group_ingress_rule.ssh.from_port == 22 && aws_vpc_security_group_ingress_rule.ssh.to_port == 22
    error_message = "ssh from elsewhere than admin_cidr, or more than ssh"
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.group.cidr_ipv4 == null && aws_vpc_security_group_egress_rule.group.cidr_ipv4 == null && aws_vpc_security_group_egress_rule.group.cidr_ipv6 == null
    error_message = "traffic leaves or enters the group"
  }
}

run "a_table_that_AWS_contradicts" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.used["c6in.8xlarge"]
    values = { default_vcpus = 48, network_performance = "40 Gigabit", supported_architectures = ["arm64"], instance_type = "c6in.8xlarge" }
  }
  expect_failures = [data.aws_ec2_instance_type.used]
}

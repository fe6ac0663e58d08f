data "aws_availability_zones" "open" {
  state = "available"
}

resource "aws_vpc" "group" {
  cidr_block           = "10.83.0.0/24"
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

resource "aws_subnet" "group" {
  vpc_id            = aws_vpc.group.id
  cidr_block        = aws_vpc.group.cidr_block
  availability_zone = coalesce(var.zone, data.aws_availability_zones.open.names[0])
  tags              = { Name = var.name }
}

resource "aws_internet_gateway" "group" {
  vpc_id = aws_vpc.group.id
  tags   = { Name = var.name }
}

resource "aws_route_table" "group" {
  vpc_id = aws_vpc.group.id
  tags   = { Name = var.name }
}

resource "aws_route" "out" {
  route_table_id         = aws_route_table.group.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.group.id
}

resource "aws_route_table_association" "group" {
  route_table_id = aws_route_table.group.id
  subnet_id      = aws_subnet.group.id
}

# What the machines may say and hear: each other, and the admin's ssh. Nothing
# leaves the group, so a wrong target cannot be loaded, whatever an agent's
# --allow says. Time and names come from AWS's own addresses, which security
# groups do not touch.
resource "aws_security_group" "group" {
  name        = var.name
  description = "Load and server machines of ${var.name}: among themselves, and ssh from the admin"
  vpc_id      = aws_vpc.group.id
  tags        = { Name = var.name }
}

resource "aws_vpc_security_group_ingress_rule" "group" {
  security_group_id            = aws_security_group.group.id
  referenced_security_group_id = aws_security_group.group.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "group" {
  security_group_id            = aws_security_group.group.id
  referenced_security_group_id = aws_security_group.group.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_ingress_rule" "ssh" {
  security_group_id = aws_security_group.group.id
  cidr_ipv4         = var.admin_cidr
  ip_protocol       = "tcp"
  from_port         = 22
  to_port           = 22
}

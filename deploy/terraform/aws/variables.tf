variable "region" {
  description = "The AWS region."
  type        = string
}

variable "zone" {
  description = "The availability zone; null takes the region's first. All machines stand in one, as a placement group must."
  type        = string
  default     = null
}

variable "name" {
  description = "What everything here is called by; two groups in one account need two names."
  type        = string
  default     = "ceiling"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}$", var.name))
    error_message = "name: lower-case letters, digits and dashes, 31 at most, a letter first."
  }
}

variable "admin_cidr" {
  description = "From where ssh is let in: your own address, as 203.0.113.7/32."
  type        = string

  validation {
    condition     = can(cidrnetmask(var.admin_cidr)) && try(tonumber(split("/", var.admin_cidr)[1]), 0) >= 16
    error_message = "admin_cidr: an IPv4 network of at most 65,536 addresses, as 203.0.113.7/32; the whole internet is not an admin."
  }
}

variable "public_key" {
  description = "The ssh public key of the admin, the whole line."
  type        = string

  validation {
    condition     = can(regex("^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp[0-9]+) [A-Za-z0-9+/=]+", var.public_key))
    error_message = "public_key: the line of a .pub file, as in file(\"~/.ssh/id_ed25519.pub\")."
  }
}

variable "load_machines" {
  description = "How many machines make load."
  type        = number
  default     = 2

  validation {
    condition     = var.load_machines >= 1 && var.load_machines <= 32 && floor(var.load_machines) == var.load_machines
    error_message = "load_machines: a whole number from 1 to 32."
  }
}

variable "server_type" {
  description = "The machine type of the server, a name from the table in types.tf."
  type        = string
  default     = "c6in.8xlarge"

  validation {
    condition     = contains(keys(local.machine_types), var.server_type)
    error_message = "server_type: ${var.server_type} is not in the table of types.tf, which has ${join(", ", keys(local.machine_types))}."
  }
}

variable "load_type" {
  description = "The machine type of the load machines, a name from the table in types.tf."
  type        = string
  default     = "c6in.8xlarge"

  validation {
    condition     = contains(keys(local.machine_types), var.load_type)
    error_message = "load_type: ${var.load_type} is not in the table of types.tf, which has ${join(", ", keys(local.machine_types))}."
  }
}

variable "max_minutes" {
  description = "After so many minutes from its first boot every machine ends itself, whoever forgot it."
  type        = number
  default     = 120

  validation {
    condition     = var.max_minutes >= 15 && var.max_minutes <= 1440 && floor(var.max_minutes) == var.max_minutes
    error_message = "max_minutes: a whole number from 15 to 1440 (a day)."
  }
}

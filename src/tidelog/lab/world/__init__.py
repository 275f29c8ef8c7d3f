"""The simulated cluster: processes, network, disks, keeper and clients under one virtual clock."""

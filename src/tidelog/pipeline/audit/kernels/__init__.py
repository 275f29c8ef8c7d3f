"""Kernels: functions over one bounded piece of evidence, with numpy and Arrow, without Spark."""

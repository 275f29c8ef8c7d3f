"""Tables that several anomalies are computed from."""

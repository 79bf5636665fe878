"""Networks: fabrics, fleets, gates, which hosts are near one another."""

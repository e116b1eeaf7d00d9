"""Networks: pods stay near what they exchange data with."""

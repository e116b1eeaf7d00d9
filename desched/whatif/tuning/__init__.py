"""The search for a policy that would have been better in the past."""

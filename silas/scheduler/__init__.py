"""When things are due: cron expressions, and the due times computed from them.

Everything here works on moments that the caller hands in; no job is run and no clock is read.
What happens at a due time is decided by the packages above.
"""

from silas.scheduler.cron import CronSchedule, InvalidCron, known_zone, last_due, next_due

__all__ = ["CronSchedule", "InvalidCron", "known_zone", "last_due", "next_due"]

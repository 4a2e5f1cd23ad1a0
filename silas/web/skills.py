"""`/api/skills/*`: which skills there are, what each may do; put before the owner, and taken away.

Reading needs the session of a paired device. A change needs its signature. Installing is no
command: it follows from the owner's signed yes to the card that `install` puts there. So does
fetching, from the card that `fetch` puts there.
"""

from typing import Annotated

from fastapi import Path

from silas.skills.service import (
    SkillDetails,
    SkillFileDifference,
    SkillFileShown,
    SkillList,
    SkillService,
)
from silas.web.access import page
from silas.web.command_routes import Routes, command_routes
from silas.web.commands import ApiCommand, PageAccess, by_name

SKILL_COMMANDS = by_name(
    [
        # Looking. The page has GET routes of its own for these.
        ApiCommand(SkillService.list_skills, alias="list"),
        ApiCommand(SkillService.show),
        ApiCommand(SkillService.read_file, alias="file"),
        ApiCommand(SkillService.difference),
        # Changing.
        ApiCommand(SkillService.install, PageAccess.SIGNED),
        ApiCommand(SkillService.fetch, PageAccess.SIGNED),
        ApiCommand(SkillService.keep, PageAccess.SIGNED),
        ApiCommand(SkillService.update, PageAccess.SIGNED),
        ApiCommand(SkillService.disable, PageAccess.SIGNED),
        ApiCommand(SkillService.enable, PageAccess.SIGNED),
        ApiCommand(SkillService.rollback, PageAccess.SIGNED),
        ApiCommand(SkillService.remove, PageAccess.SIGNED),
    ]
)
"""By name."""
Name = Annotated[str, Path(min_length=1, max_length=64)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
FilePath = Annotated[str, Path(min_length=1, max_length=1024)]


def skill_routes(skills: SkillService) -> Routes:
    """The routes."""
    routes = command_routes("/api/skills", SKILL_COMMANDS.values(), lambda: skills)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def listed() -> SkillList:
        return await skills.list_skills()

    @routes.get("/item/{name}")
    @page(PageAccess.SESSION)
    async def one(name: Name) -> SkillDetails:
        return await skills.show(name)

    @routes.get("/file/{digest}/{path:path}")
    @page(PageAccess.SESSION)
    async def file(digest: Digest, path: FilePath) -> SkillFileShown:
        return await skills.read_file(digest, path)

    @routes.get("/difference/{before}/{after}/{path:path}")
    @page(PageAccess.SESSION)
    async def difference(before: Digest, after: Digest, path: FilePath) -> SkillFileDifference:
        return await skills.difference(before, after, path)

    return routes

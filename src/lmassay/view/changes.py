"""Write notes and tags, and delete runs, with the same functions as the commands."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lmassay.errors import UserError
from lmassay.storage.annotations import with_note, with_tags
from lmassay.storage.removal import remove_runs
from lmassay.types import Annotation, RunRecord, digest
from lmassay.types.wording import counted
from lmassay.view.context import Context, records_of

# Far more than a note, tags and the ids of all selected runs need.
_MAX_FORM_SIZE = 1_000_000
_MAX_FIELDS = 10_000
_BETWEEN_TAGS = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """Return a field; empty if the form does not have it. Line breaks become ``\\n``; browsers send ``\\r\\n``."""
        return self.fields.get(name, [""])[0].replace("\r\n", "\n")

    def texts(self, name: str) -> Sequence[str]:
        """Return all fields with a name."""
        return self.fields.get(name, [])


async def read_form(request: Request, token: str) -> Form:
    """Read a form of one of our own pages; raise an HTTPException if it lacks the token.

    The token prevents cross-site request forgery (CSRF): a page of another site does not know it.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_SIZE:
            raise HTTPException(413, "The form is too large.")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error
    form = Form(fields)
    if not secrets.compare_digest(form.text("form_token").encode(), token.encode()):
        raise HTTPException(
            403,
            "The view was restarted after this form was opened, so nothing was changed. Open the form again from the "
            "list of runs, and repeat the change.",
        )
    return form


def annotation_digest(annotation: Annotation) -> str:
    """Return a digest that a form sends back, so that changes made elsewhere in the meantime are noticed."""
    return digest(annotation.note, list(annotation.tags))[:16]


def split_tags(text: str) -> list[str]:
    """Return the tags in a text, where they are separated by spaces or commas.

    >>> split_tags(" baseline, paper ")
    ['baseline', 'paper']
    """
    return [name for name in _BETWEEN_TAGS.split(text) if name]


class Changes:
    """The pages that change something, and the forms that lead to them."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # --- note and tags of one run ---------------------------------------------------------------------------------

    async def annotate(self, request: Request) -> Response:
        """Store the note and the tags of a run."""
        form = await read_form(request, self.context.form_token)
        return await run_in_threadpool(self._annotate, request, form)

    def _annotate(self, request: Request, form: Form) -> Response:
        run = request.path_params["run"]
        with self.context.folder.writable_store() as store:
            (record,) = records_of(store, [run], usable=True)
            if form.text("seen") != annotation_digest(record.annotation):
                problem = "The note or the tags were changed elsewhere since you opened the page. Nothing is saved yet."
                return self._annotation_page(request, record, form, problem, 409)
            try:
                annotation = with_note(Annotation(), form.text("note"))
                annotation = with_tags(annotation, split_tags(form.text("tags")))
            except UserError as error:
                return self._annotation_page(request, record, form, str(error), 400)
            store.annotate(run, annotation)
        self.context.folder.forget_snapshot()
        address = f"/runs/{quote(run, safe='')}"
        return _redirect(self.context.address_with_message(address, "The note and the tags have been saved."))

    def _annotation_page(self, request: Request, record: RunRecord, form: Form, problem: str, status: int) -> Response:
        """Return the page that shows a problem and keeps what the user has typed."""
        return self.context.page(
            "annotate.html",
            request,
            status,
            record=record,
            problem=problem,
            note=form.text("note"),
            tags=form.text("tags"),
            seen=annotation_digest(record.annotation),
        )

    # --- tags of several runs -------------------------------------------------------------------------------------

    def tag_page(self, request: Request) -> Response:
        """Ask which tags to add to runs, or to remove from them."""
        self.context.require_writable()
        records = self._selected(request)
        return self.context.page("tag.html", request, records=records, problem="", tags="")

    async def tag(self, request: Request) -> Response:
        """Add tags to runs, or remove tags from them."""
        form = await read_form(request, self.context.form_token)
        return await run_in_threadpool(self._tag, request, form)

    def _tag(self, request: Request, form: Form) -> Response:
        names = split_tags(form.text("tags"))
        changes: dict[str, Callable[[Annotation], Annotation]] = {
            "add": lambda annotation: with_tags(annotation, names),
            "remove": lambda annotation: _without_tags(annotation, names),
        }
        # If the action is missing or unknown, the tags are added, because adding loses nothing.
        change = changes.get(form.text("action"), changes["add"])
        with self.context.folder.writable_store() as store:
            records = records_of(store, form.texts("run"), usable=True)
            if not records:
                raise HTTPException(400, "No run is selected.")
            try:
                if not names:
                    raise UserError("write at least one tag")
                annotations = [change(record.annotation) for record in records]
            except UserError as error:
                problem = str(error)
                return self.context.page(
                    "tag.html", request, 400, records=records, problem=problem, tags=form.text("tags")
                )
            for record, annotation in zip(records, annotations, strict=True):
                store.annotate(record.id, annotation)
        self.context.folder.forget_snapshot()
        done = f"The tags of {counted(len(records), 'run')} have been saved."
        return _redirect(self.context.address_with_message("/", done))

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete_page(self, request: Request) -> Response:
        """Ask for confirmation before runs are deleted."""
        self.context.require_writable()
        records = self._selected(request)
        in_progress = []
        with self.context.folder.store() as store:
            for record in records:
                if store.is_in_progress(record):
                    in_progress.append(record)
        return self.context.page("delete.html", request, records=records, in_progress=in_progress)

    async def delete(self, request: Request) -> Response:
        """Delete runs."""
        form = await read_form(request, self.context.form_token)
        return await run_in_threadpool(self._delete, form)

    def _delete(self, form: Form) -> Response:
        with self.context.folder.writable_store() as store:
            records = records_of(store, form.texts("run"))
            if not records:
                raise HTTPException(400, "No run is selected.")
            removal = remove_runs(store, records, with_answers=form.text("answers") == "yes")
        self.context.folder.forget_snapshot()
        text = removal.describe()
        return _redirect(self.context.address_with_message("/", f"{text[0].upper()}{text[1:]}."))

    def _selected(self, request: Request) -> list[RunRecord]:
        runs = request.query_params.getlist("run")
        if not runs:
            raise HTTPException(400, "No run is selected. Go back and select at least one.")
        with self.context.folder.store() as store:
            return records_of(store, runs)


def _without_tags(annotation: Annotation, names: Sequence[str]) -> Annotation:
    return replace(annotation, tags=tuple(tag for tag in annotation.tags if tag not in names))


def _redirect(address: str) -> Response:
    # 303: the browser gets the next page, and reloading that page does not repeat the change.
    return RedirectResponse(address, status_code=303)

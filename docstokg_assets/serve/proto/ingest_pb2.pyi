from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Queue(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_UNSPECIFIED: _ClassVar[Queue]
    QUEUE_PRIORITY: _ClassVar[Queue]
    QUEUE_DAILY: _ClassVar[Queue]
    QUEUE_BULK: _ClassVar[Queue]
QUEUE_UNSPECIFIED: Queue
QUEUE_PRIORITY: Queue
QUEUE_DAILY: Queue
QUEUE_BULK: Queue

class SubmitRequest(_message.Message):
    __slots__ = ("base_url", "ingest_type", "link_source", "link_source_id", "ingest_request_source", "release_stage", "rel", "oa_status", "force_recrawl", "max_age_days", "ext_ids", "edit_extra_json", "fatcat_json", "extra_json", "queue")
    class ExtIdsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BASE_URL_FIELD_NUMBER: _ClassVar[int]
    INGEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    LINK_SOURCE_FIELD_NUMBER: _ClassVar[int]
    LINK_SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    INGEST_REQUEST_SOURCE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_STAGE_FIELD_NUMBER: _ClassVar[int]
    REL_FIELD_NUMBER: _ClassVar[int]
    OA_STATUS_FIELD_NUMBER: _ClassVar[int]
    FORCE_RECRAWL_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_DAYS_FIELD_NUMBER: _ClassVar[int]
    EXT_IDS_FIELD_NUMBER: _ClassVar[int]
    EDIT_EXTRA_JSON_FIELD_NUMBER: _ClassVar[int]
    FATCAT_JSON_FIELD_NUMBER: _ClassVar[int]
    EXTRA_JSON_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    base_url: str
    ingest_type: str
    link_source: str
    link_source_id: str
    ingest_request_source: str
    release_stage: str
    rel: str
    oa_status: str
    force_recrawl: bool
    max_age_days: float
    ext_ids: _containers.ScalarMap[str, str]
    edit_extra_json: str
    fatcat_json: str
    extra_json: str
    queue: Queue
    def __init__(self, base_url: _Optional[str] = ..., ingest_type: _Optional[str] = ..., link_source: _Optional[str] = ..., link_source_id: _Optional[str] = ..., ingest_request_source: _Optional[str] = ..., release_stage: _Optional[str] = ..., rel: _Optional[str] = ..., oa_status: _Optional[str] = ..., force_recrawl: _Optional[bool] = ..., max_age_days: _Optional[float] = ..., ext_ids: _Optional[_Mapping[str, str]] = ..., edit_extra_json: _Optional[str] = ..., fatcat_json: _Optional[str] = ..., extra_json: _Optional[str] = ..., queue: _Optional[_Union[Queue, str]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("id", "item_id", "new", "reopened", "after")
    ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    item_id: str
    new: bool
    reopened: bool
    after: float
    def __init__(self, id: _Optional[str] = ..., item_id: _Optional[str] = ..., new: _Optional[bool] = ..., reopened: _Optional[bool] = ..., after: _Optional[float] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("number", "problems")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    number: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmitStreamReply(_message.Message):
    __slots__ = ("requests", "new", "items", "reopened", "refused", "problems")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    requests: int
    new: int
    items: int
    reopened: int
    refused: int
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    def __init__(self, requests: _Optional[int] = ..., new: _Optional[int] = ..., items: _Optional[int] = ..., reopened: _Optional[int] = ..., refused: _Optional[int] = ..., problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ...) -> None: ...

class RequestId(_message.Message):
    __slots__ = ("id", "after")
    ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    after: float
    def __init__(self, id: _Optional[str] = ..., after: _Optional[float] = ...) -> None: ...

class WorkId(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("id", "status", "hit", "error_message", "terminal_url", "terminal_dt", "sha256hex", "size_bytes", "mimetype", "archive_url", "next_try", "json")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HIT_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_URL_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_DT_FIELD_NUMBER: _ClassVar[int]
    SHA256HEX_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIMETYPE_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_URL_FIELD_NUMBER: _ClassVar[int]
    NEXT_TRY_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: str
    hit: bool
    error_message: str
    terminal_url: str
    terminal_dt: str
    sha256hex: str
    size_bytes: int
    mimetype: str
    archive_url: str
    next_try: float
    json: str
    def __init__(self, id: _Optional[str] = ..., status: _Optional[str] = ..., hit: _Optional[bool] = ..., error_message: _Optional[str] = ..., terminal_url: _Optional[str] = ..., terminal_dt: _Optional[str] = ..., sha256hex: _Optional[str] = ..., size_bytes: _Optional[int] = ..., mimetype: _Optional[str] = ..., archive_url: _Optional[str] = ..., next_try: _Optional[float] = ..., json: _Optional[str] = ...) -> None: ...

class HostRequest(_message.Message):
    __slots__ = ("resolver", "host", "what", "answer", "reason", "url", "at")
    RESOLVER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    resolver: str
    host: str
    what: str
    answer: str
    reason: str
    url: str
    at: str
    def __init__(self, resolver: _Optional[str] = ..., host: _Optional[str] = ..., what: _Optional[str] = ..., answer: _Optional[str] = ..., reason: _Optional[str] = ..., url: _Optional[str] = ..., at: _Optional[str] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("request", "result")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    request: HostRequest
    result: Result
    def __init__(self, request: _Optional[_Union[HostRequest, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ...) -> None: ...

class Story(_message.Message):
    __slots__ = ("work_id", "title", "ending", "reason", "tries", "why", "help")
    WORK_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    work_id: str
    title: str
    ending: str
    reason: str
    tries: _containers.RepeatedCompositeFieldContainer[HostRequest]
    why: _containers.RepeatedScalarFieldContainer[str]
    help: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, work_id: _Optional[str] = ..., title: _Optional[str] = ..., ending: _Optional[str] = ..., reason: _Optional[str] = ..., tries: _Optional[_Iterable[_Union[HostRequest, _Mapping]]] = ..., why: _Optional[_Iterable[str]] = ..., help: _Optional[_Iterable[str]] = ...) -> None: ...

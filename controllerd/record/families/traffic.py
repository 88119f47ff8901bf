"""Kinds about writes to ZooKeeper, requests to brokers and their responses, alarms, and lost records."""

from typing import Any, Final

from controllerd.core.text import counted
from controllerd.record.description import RecordKind
from controllerd.record.facts import FactRows, Facts, json_of, micros, one_row
from controllerd.record.phrases import tally
from controllerd.record.records import AlarmRecord, GapRecord, RequestRecord, ResponseRecord, ZkWriteRecord
from controllerd.record.state import ClusterState


def _zk_sentence(record: ZkWriteRecord) -> str:
    failed = [result for result in record.results if result != "ok"]
    outcome = f", {tally(failed)}" if failed else ""
    return f"ZooKeeper wrote {counted(len(record.operations), 'operation')} in {record.took_ms:.1f} ms{outcome}"


def _zk_facts(record: ZkWriteRecord) -> Facts:
    data = json_of(record, "fence", "operations", "paths", "expected", "results", "versions", "ambiguous")
    return 1, {"zxid": (record.zxid,), "took_us": (micros(record.took_ms),), "data": data}


ZK_WRITE: Final = RecordKind(
    record=ZkWriteRecord,
    sentence=_zk_sentence,
    facts=_zk_facts,
    from_facts=None,
    fold=None,
    counter=None,
    in_summary=False,
    holds_texts=False,
)


def _request_sentence(record: RequestRecord) -> str:
    partitions = counted(len(record.partitions) + record.unnamed, "partition")
    what = f"{record.api}, continued, with" if record.continues else f"{record.api} for"
    return f"{what} {partitions} queued for {counted(len(record.brokers), 'broker')}"


REQUEST: Final = RecordKind(
    record=RequestRecord,
    sentence=_request_sentence,
    facts=one_row(RequestRecord, name="api"),
    from_facts=None,
    fold=None,
    counter=None,
    in_summary=False,
    holds_texts=False,
)


def _response_sentence(record: ResponseRecord) -> str:
    error = f", error {record.error}" if record.error else ""
    errors = f", {counted(len(record.errors), 'partition')} with errors" if record.errors else ""
    return f"broker {record.broker} answered {record.api} after {record.took_ms:.1f} ms{error}{errors}"


def _response_facts(record: ResponseRecord) -> Facts:
    return 1, {
        "broker": (record.broker,),
        "name": (record.api,),
        "took_us": (micros(record.took_ms),),
        "error": (record.error,),
        "attempts": (record.attempts,),
        "bytes": (record.bytes_sent,),
        "data": json_of(record, "broker_epoch", "version", "correlation_id", "errors"),
    }


RESPONSE: Final = RecordKind(
    record=ResponseRecord,
    sentence=_response_sentence,
    facts=_response_facts,
    from_facts=None,
    fold=None,
    counter=None,
    holds_texts=False,
)

ALARM: Final = RecordKind(
    record=AlarmRecord,
    sentence=lambda record: f"{record.what}: {record.detail}",
    facts=one_row(AlarmRecord, name="what", reason="detail"),
    from_facts=None,
    fold=None,
    counter=None,
)


def _fold_gap(state: ClusterState, _record: GapRecord) -> None:
    state.is_whole = False


def _gap_from(rows: FactRows) -> GapRecord:
    return GapRecord(reason=rows.one("reason"), **rows.data)


GAP: Final = RecordKind(
    record=GapRecord,
    sentence=lambda record: f"{counted(record.lost, 'record')} lost: {record.reason}",
    facts=one_row(GapRecord, reason="reason"),
    from_facts=_gap_from,
    fold=_fold_gap,
    counter=None,
)

TRAFFIC: Final[tuple[RecordKind[Any], ...]] = (ZK_WRITE, REQUEST, RESPONSE, ALARM, GAP)

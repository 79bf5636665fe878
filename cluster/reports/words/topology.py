"""How GPUs are connected, what NCCL used, and what follows, in words."""

from msgspec.structs import replace

from cluster.analysis.topology import UNKNOWN, nvlinks
from cluster.analysis.topology.topology import FASTER, SLOWER, PeerGain, TopologyNote, UnusualPair
from cluster.analysis.topology.transports import HostTopology, NcclExperiment, TransportFinding
from cluster.core.text.units import format_value

MOST_SHOWN = 4  # carriers in the name of an experiment


def with_words(host: HostTopology) -> HostTopology:
    """Complete a topology with its findings and notes in words."""
    gpus, transports = host.joined, host.transports
    return replace(
        host,
        joined=replace(
            gpus,
            misfits=tuple(replace(misfit, words=misfit_words(misfit)) for misfit in gpus.misfits),
            findings=tuple(
                replace(finding, words=finding_words(finding)) for finding in gpus.findings
            ),
            notes=tuple(replace(note, words=note_words(note)) for note in gpus.notes),
        ),
        transports=replace(
            transports,
            findings=tuple(
                replace(finding, words=finding_words(finding)) for finding in transports.findings
            ),
        ),
    )


def finding_words(finding: PeerGain | TransportFinding) -> str:
    if isinstance(finding, PeerGain):
        return _gain_words(finding)
    share, experiment, other = finding.share, finding.experiment, finding.other
    match finding.kind:
        case "unused":
            because = f"; {_settings(experiment)} says so" if experiment else ""
            used = f"but NCCL used {', '.join(finding.via)}{because}"
            return f"{finding.pair} has {finding.path}, {used}"
        case "not_comparable" if finding.figure:
            figure = finding.figure
            row = ", ".join(str(value) for value in figure.params.values())
            return (
                f"not comparable: {figure.rate:.0f} {figure.unit} ({figure.column}: {row}) is of "
                f"{figure.alone}, which the other figures of its column are not"
            )
    if experiment is None or other is None:
        return ""
    match finding.kind:
        case "cost":
            verb = f"costs {share:.1%}" if share > 0 else f"brings {-share:.1%}"
            off_text = f"{rate_words(other)} ({carried_words(other)})"
            with_it = f"{rate_words(experiment)} with it ({carried_words(experiment)})"
            return f"{experiment_name(experiment)}: peer-to-peer off {verb}: {off_text}, {with_it}"
        case "alike":
            rate = f"{rate_words(experiment)} ({carried_words(experiment)})"
            return f"all {finding.count} pairs are alike: {rate}, within {share:.1%}"
        case _:
            best, worst = (
                f"{experiment_name(path)} with {rate_words(path)} ({carried_words(path)})"
                for path in (experiment, other)
            )
            return f"best {best}, worst {worst}: {share:.1%} less"


def _gain_words(gain: PeerGain) -> str:
    brings = f"{gain.rate:.1f} x the rate" if gain.rate >= FASTER else "nothing in rate"
    if gain.rate < SLOWER:
        brings = f"{gain.rate:.2f} x the rate: it is slower than through the host's memory"
    latency = f", and latency / {gain.latency:.1f}" if gain.latency is not None else ""
    kind = f"connected by {gain.path}" if gain.path != UNKNOWN else "whose links no log names"
    return f"peer-to-peer brings {brings}{latency} to {gain.pairs} pair(s) {kind}"


def experiment_name(experiment: NcclExperiment) -> str:
    more = len(experiment.carriers) - MOST_SHOWN
    names = [carrier.name for carrier in experiment.carriers[:MOST_SHOWN]]
    return ", ".join([*names, *([f"and {more} more"] if more > 0 else [])])


def carried_words(experiment: NcclExperiment) -> str:
    """Return what carried the data of an experiment, and with which settings."""
    if not experiment.carriers:
        return "nothing that the log names"
    kinds = dict.fromkeys(via for carrier in experiment.carriers for via in carrier.via)
    settings = _settings(experiment)
    channels = f"{', '.join(kinds)}, {experiment.channels} channel(s)"
    return f"{channels}, {settings}" if settings else channels


def rate_words(experiment: NcclExperiment) -> str:
    return f"{experiment.rate:.0f} {experiment.unit}" if experiment.rate is not None else "-"


def _settings(experiment: NcclExperiment) -> str:
    return ", ".join(f"{setting.name}={setting.value}" for setting in experiment.settings)


def misfit_words(misfit: UnusualPair) -> str:
    rate, links = format_value(misfit.rate, "B/s"), nvlinks(misfit.path)
    match misfit.kind:
        case "as_without_nvlink":
            return f"{rate} over {links} NVLink(s): no more than pairs without NVLink have"
        case "as_without_p2p":
            return f"{rate} over {links} NVLink(s): no more than without peer-to-peer"
        case "slower_than_without":
            off_text = f"{format_value(misfit.without or 0.0, 'B/s')} without"
            slower = "it is slower than through the host's memory"
            return f"{rate} with peer-to-peer, {off_text}: {slower}"
        case "unlike_others":
            expected = misfit.expected or misfit.rate
            rest = f"the {misfit.others} other pair(s) of its kind promise"
            norm = format_value(expected, "B/s")
            return f"{rate}, where {rest} {norm}: {misfit.rate / expected:.0%}"


def note_words(note: TopologyNote) -> str:
    match note.kind:
        case "misread":
            a, b = note.names
            back = f"{note.back} back: one was misread"
            return f"the matrix says {note.path} from {a} to {b}, and {back}"
        case "lost":
            return f"the matrix lost how these are connected: {', '.join(note.names)}"
        case "inferred":
            return (
                "no matrix shows how the GPUs are connected: NVLinks are inferred from rates with "
                "peer-to-peer that are multiples of 25 GB/s each way (V100, A100, H100)"
            )
        case "access":
            driver = f"but the driver says {note.back} of peer-to-peer"
            return f"{note.names[0]} has {note.path}, {driver}"

/** Rows and columns of the table of trials. */
import type { Slo } from '../../../../profiler/model/slo.ts'
import type { Annotation } from '../../../../trials/annotation.ts'
import type { FinishedTrial, Provenance } from '../../../../trials/types.ts'
import { latency, money, percent, percentileName, significant, sloName } from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import type { Candidate } from '../../../recommendation/types.ts'
import { estimateText } from '../../../recommendation/words.ts'
import type { Answer } from '../answer.ts'

export interface TrialRow {
  readonly trial: FinishedTrial
  readonly candidate?: Candidate
  readonly label: string
  readonly rank: number
  readonly outcome: string
  readonly kind: Kind
  readonly annotation?: Annotation
}
type Kind = ReturnType<typeof describeStatus>['name'] | 'again' | 'later'

/** Statuses, and trials that stand for no configuration. */
export const kinds: Readonly<Record<Kind, string>> = {
  confirmed: '✓ confirmed',
  met: '✓ met, not proven',
  measured: '· measured',
  imported: '◇ imported',
  simulated: '○ simulated',
  bound: '≤ bound',
  refuted: '✕ refuted',
  inconclusive: '~ inconclusive',
  infeasible: '⊘ infeasible',
  failed: '! failed',
  again: '↻ second load test',
  later: '· superseded later',
}

export interface TrialColumn {
  readonly name: string
  readonly numeric?: boolean
  readonly key: (row: TrialRow) => number | string
  readonly cell: (row: TrialRow) => string
}

export const absent = Number.POSITIVE_INFINITY
const createNumberColumn = (
  name: string,
  of: (c: Candidate) => number | undefined,
  show: (value: number) => string,
): TrialColumn => ({
  name,
  numeric: true,
  key: ({ candidate }) => (candidate ? (of(candidate) ?? absent) : absent),
  cell: ({ candidate }) => {
    const value = candidate && of(candidate)
    return value === undefined || !Number.isFinite(value) ? '' : show(value)
  },
})

/** Chooses the format of latencies: under several limits, the share of them, which is short. */
const chooseLatencyFormat = ({ limits, limitMs }: Slo) =>
  limits ? (ms: number) => percent(ms / limitMs) : latency

export const listColumns = (
  slo: Slo,
  {
    qualities,
    tokens,
    tags,
  }: { readonly qualities: boolean; readonly tokens: boolean; readonly tags: boolean },
): readonly TrialColumn[] => [
  {
    name: 'rank',
    numeric: true,
    key: (r) => r.rank,
    cell: (r) => (r.rank < absent ? String(r.rank) : ''),
  },
  { name: 'trial', numeric: true, key: (r) => r.trial.number, cell: (r) => String(r.trial.number) },
  { name: 'configuration', key: (r) => r.label, cell: (r) => r.label },
  { name: 'status', key: (r) => r.kind, cell: (r) => kinds[r.kind] },
  createNumberColumn(
    'safe capacity',
    (c) => (c.capacityRps > 0 ? c.capacityRps : undefined),
    significant,
  ),
  {
    name: 'estimate [90 %]',
    numeric: true,
    key: (r) => (r.candidate?.capacityRps ? (r.candidate.estimateRps ?? absent) : absent),
    cell: ({ candidate: c }) => (c?.estimateRps === undefined ? '' : estimateText(c)),
  },
  ...(qualities ? [createNumberColumn('quality', (c) => c.quality, String)] : []),
  {
    name: slo.limits ? `${percentileName(slo.percentile)} of limits` : sloName(slo),
    numeric: true,
    key: ({ candidate }) => candidate?.sloMsAtCapacity ?? absent,
    cell: ({ candidate: c }) =>
      c && Number.isFinite(c.sloMsAtCapacity)
        ? `${chooseLatencyFormat(slo)(c.sloMsAtCapacity)}${{ measured: '', model: ' (est.)', unloaded: ' (unloaded)' }[c.sloMsFrom]}`
        : '',
  },
  createNumberColumn('unloaded', (c) => c.unloadedMs, chooseLatencyFormat(slo)),
  createNumberColumn('$ / h', (c) => c.pricePerHour, money),
  createNumberColumn('$ / M req', (c) => c.pricePerMillionRequests, money),
  ...(tokens ? tokenColumns : []),
  ...(tags ? [{ name: 'tags', key: listTags, cell: listTags }] : []),
  {
    name: 'took',
    numeric: true,
    key: (r) => r.trial.seconds,
    cell: (r) => `${significant(r.trial.seconds)} s`,
  },
  { name: 'why', key: (r) => r.outcome, cell: (r) => r.outcome },
]

/** A note shows that it is there. */
const listTags = ({ annotation }: TrialRow): string =>
  [...(annotation?.tags ?? []), ...(annotation?.note === undefined ? [] : ['✎'])].join(', ')

/** Columns for streamed answers, with short titles. */
const tokenColumns: readonly TrialColumn[] = [
  createNumberColumn('TTFT p99', (c) => c.tokens?.latencies?.ttft.p99Ms, latency),
  createNumberColumn('ITL p99', (c) => c.tokens?.latencies?.interToken.p99Ms, latency),
  createNumberColumn('TPOT p99', (c) => c.tokens?.latencies?.tpot.p99Ms, latency),
  createNumberColumn('out tok/s', (c) => c.tokens?.outputTokensPerSecond, significant),
  createNumberColumn('per GPU', (c) => c.tokens?.outputTokensPerSecondPerGpu, significant),
  createNumberColumn('$ / M in', (c) => c.tokens?.pricePerMillionInputTokens, money),
  createNumberColumn('$ / M out', (c) => c.tokens?.pricePerMillionOutputTokens, money),
]

export function createRows({
  trials,
  annotations,
  byTrial,
  candidates,
  ranker,
  recommendation: r,
}: Answer): TrialRow[] {
  const ranks = new Map<number, number>()
  for (const [i, c] of candidates.entries()) if (c.feasible) ranks.set(c.trial, i + 1)
  const whyNot = new Map(r.alternatives.map((a) => [a.trial, a.whyNot]))
  return trials.map((trial): TrialRow => {
    const candidate = trial.purpose === 'confirmation' ? undefined : byTrial.get(trial.number)
    const label = candidate?.label ?? ranker.label(trial.configuration)
    const outcome =
      trial.number === r.best?.trial
        ? r.conclusion === 'unconfirmed'
          ? 'best found, NOT confirmed'
          : 'recommended'
        : (whyNot.get(trial.number) ?? candidate?.reason ?? explainUncounted(trial))
    return {
      trial,
      candidate,
      label,
      rank: ranks.get(trial.number) ?? absent,
      outcome,
      kind: classifyTrial(trial, candidate, r.provenance),
      annotation: annotations.get(trial.number),
    }
  })
}

const classifyTrial = (
  trial: FinishedTrial,
  candidate: Candidate | undefined,
  provenance: Provenance,
): Kind =>
  (candidate && describeStatus(candidate.status, provenance).name) ??
  (trial.purpose === 'confirmation' ? 'again' : trial.state === 'failed' ? 'failed' : 'later')

const explainUncounted = (trial: FinishedTrial): string =>
  trial.purpose === 'confirmation'
    ? 'second load test of the winner'
    : trial.state === 'failed'
      ? trial.error
      : trial.state === 'infeasible'
        ? trial.detail
        : 'superseded by a later trial'

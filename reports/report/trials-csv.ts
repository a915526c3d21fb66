/** All trials as one table, a row each, with documented columns. */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { formatMetric } from '../../profiler/prometheus.ts'
import { computeJoulesPerRequest } from '../../search/objective.ts'
import { configurationKey } from '../../search/space/space.ts'
import { type Cell, formatCsv } from '../../trials/csv.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { RankingCriteria } from '../recommendation/ranked-candidate.ts'
import { rankCandidates } from '../recommendation/ranking.ts'
import { tokenFigures } from '../recommendation/token-text.ts'
import type { Candidate } from '../recommendation/types.ts'

interface Row {
  readonly trial: FinishedTrial
  readonly measurement?: Measurement
  readonly candidate?: Candidate
}

/** Columns in order. `parameter.NAME` columns follow `purpose`. */
export const trialColumns: readonly {
  readonly name: string
  readonly what: string
  readonly getCell: (row: Row) => Cell
}[] = [
  { name: 'trial', what: 'number of the trial', getCell: (r) => r.trial.number },
  {
    name: 'state',
    what: 'complete, infeasible (cannot serve) or failed (not measured)',
    getCell: (r) => r.trial.state,
  },
  {
    name: 'purpose',
    what: 'search, default (the baseline) or confirmation',
    getCell: (r) => r.trial.purpose ?? 'search',
  },
  {
    name: 'status',
    what: 'how reliable the figures of the configuration are, as in recommendation.json; empty for confirmations and repeated trials',
    getCell: (r) => r.candidate?.status,
  },
  {
    name: 'feasible',
    what: 'whether the configuration meets the SLO and the price limit; empty for trials without a result and for confirmations',
    getCell: ({ candidate }) =>
      candidate && hasResult(candidate) ? candidate.feasible : undefined,
  },
  {
    name: 'reason',
    what: 'why it is not feasible',
    getCell: (r) => r.candidate?.reason ?? (r.trial.state === 'failed' ? r.trial.error : undefined),
  },
  {
    name: 'safe_capacity_rps',
    what: 'confirmed rate, or the estimate with the confirmation discount, requests per second',
    getCell: (r) => getFigure(r, ({ capacityRps }) => capacityRps),
  },
  {
    name: 'estimate_rps',
    what: 'rate at which this measurement reaches the SLO, requests per second',
    getCell: (r) =>
      getFigure(r, ({ estimateRps, capacityRps }) => estimateRps ?? capacityRps) ??
      pickOwnCapacity(r),
  },
  {
    name: 'estimate_low_rps',
    what: 'lower end of the 90 % interval of the capacity',
    getCell: (r) => getInterval(r)?.[0],
  },
  {
    name: 'estimate_high_rps',
    what: 'upper end of the 90 % interval of the capacity',
    getCell: (r) => getInterval(r)?.[1],
  },
  {
    name: 'slo_ms',
    what: 'latency of the SLO percentile at the safe capacity, ms',
    getCell: (r) => getFigure(r, ({ sloMsAtCapacity }) => sloMsAtCapacity),
  },
  {
    name: 'slo_ms_from',
    what: 'source of that latency: measured (a window at that rate), model (the load curve) or unloaded (one request at a time)',
    getCell: (r) => getFigure(r, ({ sloMsFrom }) => sloMsFrom),
  },
  {
    name: 'derived',
    what: 'true: read off a load curve that was measured under another SLO',
    getCell: (r) => getFigure(r, ({ derived = false }) => derived),
  },
  {
    name: 'quality',
    what: 'quality of its model variant, as the experiment states it',
    getCell: (r) => r.candidate?.quality,
  },
  {
    name: 'price_per_hour',
    what: 'price of one replica, $ per hour',
    getCell: (r) => r.candidate?.pricePerHour,
  },
  {
    name: 'price_per_million_requests',
    what: '$ per million requests at the safe capacity',
    getCell: (r) => getFigure(r, ({ pricePerMillionRequests }) => pricePerMillionRequests),
  },
  {
    name: 'replicas',
    what: 'replicas for the demand, if there is one',
    getCell: (r) => getFigure(r, ({ replicas }) => replicas),
  },
  {
    name: 'total_price_per_hour',
    what: 'price of those replicas, $ per hour',
    getCell: (r) => getFigure(r, ({ totalPricePerHour }) => totalPricePerHour),
  },
  {
    name: 'idle_p50_ms',
    what: 'median unloaded latency (one request at a time), ms',
    getCell: (r) => r.measurement?.unloaded.p50Ms,
  },
  {
    name: 'idle_p99_ms',
    what: 'p99 of the unloaded latency, ms',
    getCell: (r) => r.measurement?.unloaded.p99Ms,
  },
  {
    name: 'saturation_rps',
    what: 'rate of a saturated closed loop, requests per second',
    getCell: (r) => r.measurement?.saturationRps,
  },
  {
    name: 'outcome',
    what: 'how the capacity search ended: converged, slo-unattainable, errors, budget, non-stationary, generator-limit, host-interference, pruned, server-died or imported',
    getCell: (r) => r.measurement?.outcome,
  },
  { name: 'requests', what: 'requests sent', getCell: (r) => r.measurement?.requests },
  {
    name: 'cpu_cores_busy',
    what: 'mean number of busy cores',
    getCell: (r) => r.trial.usage?.cpuCores,
  },
  { name: 'peak_rss_mib', what: 'peak memory, MiB', getCell: (r) => r.trial.usage?.peakRssMiB },
  { name: 'gpu_memory_mib', what: 'GPU memory, MiB', getCell: (r) => r.trial.usage?.gpuMemoryMiB },
  {
    name: 'gpu_utilization',
    what: 'mean share of time the GPU was busy, 0-1',
    getCell: (r) => r.trial.usage?.gpuUtilization,
  },
  {
    name: 'gpu_watts',
    what: 'power of the GPU in its busiest seconds, if the machine reports it',
    getCell: (r) => r.trial.usage?.gpuWatts,
  },
  {
    name: 'cpu_watts',
    what: "power of the machine's processors in their busiest seconds, if they report it",
    getCell: (r) => r.trial.usage?.cpuWatts,
  },
  {
    name: 'joules_per_request',
    what: 'upper bound of the energy of a request: power divided by the safe capacity',
    getCell: (r) =>
      computeJoulesPerRequest(
        r.trial.usage ?? {},
        r.candidate?.capacityRps ?? r.measurement?.capacityRps ?? 0,
      ),
  },
  {
    name: 'realised_batch',
    what: 'mean batch that the server formed',
    getCell: (r) => r.trial.usage?.realisedBatch,
  },
  {
    name: 'sequences',
    what: 'language models: maximum sequences at once',
    getCell: (r) => r.trial.usage?.sequences,
  },
  {
    name: 'sequences_waiting',
    what: 'language models: maximum waiting sequences',
    getCell: (r) => r.trial.usage?.waiting,
  },
  {
    name: 'kv_cache_use',
    what: 'language models: maximum share of the KV cache in use, 0-1',
    getCell: (r) => r.trial.usage?.cacheUse,
  },
  {
    name: 'preemptions',
    what: 'language models: sequences that were preempted',
    getCell: (r) => r.trial.usage?.preemptions,
  },
  {
    name: 'accepted_draft_tokens',
    what: 'speculative decoding: mean accepted draft tokens per step and answer',
    getCell: (r) => r.trial.usage?.acceptedTokens,
  },
  {
    name: 'prefill_utilization',
    what: 'mean share of time that the GPUs of prefill servers were busy, 0-1',
    getCell: (r) => r.trial.usage?.prefillUtilization,
  },
  {
    name: 'decode_utilization',
    what: 'mean share of time that the GPUs of decode servers were busy, 0-1',
    getCell: (r) => r.trial.usage?.decodeUtilization,
  },
  {
    name: 'launch_seconds',
    what: 'seconds from start to ready, without the wait for a node; for a reused server until its values were set',
    getCell: (r) => r.trial.usage?.launchSeconds,
  },
  {
    name: 'node_wait_seconds',
    what: 'seconds that the pod waited for a node',
    getCell: (r) => r.trial.usage?.nodeWaitSeconds,
  },
  {
    name: 'prepare_seconds',
    what: 'seconds of the prepare step, if it ran',
    getCell: (r) => r.trial.usage?.prepareSeconds,
  },
  { name: 'started_at', what: 'start of the trial, ISO 8601', getCell: (r) => r.trial.startedAt },
  {
    name: 'seconds',
    what: 'seconds of preparation, launch, load and stop',
    getCell: (r) => r.trial.seconds,
  },
  { name: 'why', what: 'why the configuration was tried', getCell: (r) => r.trial.why },
]

/** Columns for streamed answers, appended if any trial has them. */
export const tokenColumns: typeof trialColumns = tokenFigures.map(({ column, what, read }) => ({
  name: column,
  what,
  getCell: ({ candidate }) => candidate?.tokens && read(candidate.tokens),
}))

const hasResult = ({ status }: Candidate): boolean =>
  status !== 'inconclusive' && status !== 'failed'

/** Gets a figure of a measured configuration; empty for those without a measurement, never 0. */
const getFigure = ({ candidate, measurement }: Row, read: (candidate: Candidate) => Cell): Cell =>
  candidate && measurement && hasResult(candidate) ? read(candidate) : undefined

/** Picks the measurement of a trial without a candidate: a confirmation, or a repeated trial. */
const pickOwnMeasurement = ({
  candidate,
  measurement,
}: Pick<Row, 'candidate' | 'measurement'>): Measurement | undefined =>
  candidate || (measurement && hasNoResult(measurement)) ? undefined : measurement
const pickOwnCapacity = (row: Row) => pickOwnMeasurement(row)?.capacityRps
const getInterval = ({ candidate, measurement }: Row): readonly [number, number] | undefined =>
  candidate && measurement && hasResult(candidate)
    ? candidate.capacityCi90Rps
    : pickOwnMeasurement({ candidate, measurement })?.capacityCi90Rps

/** trial, state, purpose */
const columnsBeforeParameters = 3

/** Renders every trial in order, under the criteria's SLO, objective and prices. */
export function renderTrialsCsv(
  trials: readonly FinishedTrial[],
  criteria: RankingCriteria,
): string {
  const parameters = [...new Set(trials.flatMap((t) => Object.keys(t.configuration)))]
  const head = trialColumns.slice(0, columnsBeforeParameters)
  const rankedTrials = rankCandidates(trials, criteria)
  const tail = [
    ...trialColumns.slice(columnsBeforeParameters),
    ...(rankedTrials.some(({ candidate }) => candidate.tokens) ? tokenColumns : []),
  ]
  const candidates = new Map(
    rankedTrials.map((one) => [configurationKey(one.trial.configuration), one]),
  )
  const metrics = [
    ...new Set(
      trials.flatMap((t) =>
        (t.state === 'complete' ? (t.measurement.metrics ?? []) : []).map(formatMetric),
      ),
    ),
  ]
  const rows = trials.map((trial) => {
    const ranked = candidates.get(configurationKey(trial.configuration))
    const candidate = ranked?.trial === trial ? ranked.candidate : undefined
    const row: Row = {
      trial,
      candidate,
      measurement: trial.state === 'complete' ? trial.measurement : undefined,
    }
    const metricValues = metrics.map(
      (name) => row.measurement?.metrics?.find((metric) => formatMetric(metric) === name)?.value,
    )
    return [
      ...head.map((c) => c.getCell(row)),
      ...parameters.map((name) => trial.configuration[name]),
      ...tail.map((c) => c.getCell(row)),
      ...metricValues,
    ]
  })
  return formatCsv(
    [
      ...head.map((c) => c.name),
      ...parameters.map((name) => `parameter.${name}`),
      ...tail.map((c) => c.name),
      ...metrics.map((name) => `metric.${name}`),
    ],
    rows,
  )
}

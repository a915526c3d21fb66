/** Formats a replay for the terminal. */
import { percent, significant, writing } from '../../../../reports/format.ts'
import { formatCost } from '../../../../search/objective.ts'
import type { RecordedTable } from '../../../../search/replay/table.ts'
import type { ReplayTask } from '../../../../search/replay/task.ts'
import { resolveReplicaPrice } from '../../../../search/replica-price.ts'
import type { Configuration, Observation } from '../../../../search/types.ts'
import { formatTable as columns } from '../../render/columns.ts'
import { glyph, type Style } from '../../render/glyphs.ts'
import { computeCost, type LookUps, type SeedRun, type TrueCosts } from './replay-outcome.ts'

export interface ReplayReport {
  readonly task: ReplayTask
  readonly recorded: RecordedTable
  readonly truth: TrueCosts
  readonly run: SeedRun
  readonly noise: number
  readonly maxTrials: number
  readonly sampler: string
  /** Look-ups over all seeds; absent if no row meets the limit. */
  readonly lookUps?: { readonly seeds: number; readonly ours: LookUps; readonly random: LookUps }
}

export function formatReplay(report: ReplayReport, style: Style): string[] {
  const { task, recorded, run } = report
  const rows = run.observations.map((o, i) => [
    o === run.best ? glyph('best', style) : ' ',
    `${i + 1}`,
    formatConfiguration(o.configuration),
    formatOutcome(task, recorded, o),
  ])
  return [
    ...columns(rows),
    '',
    formatVerdict(report),
    ...formatRegret(report),
    ...formatNoise(report),
    ...formatComparison(report),
  ]
}

function formatOutcome(task: ReplayTask, recorded: RecordedTable, o: Observation): string {
  if (o.state === 'infeasible') return o.reason
  const cost = computeCost(recorded, o)
  const { metric, max } = task.constraint
  return cost === undefined
    ? `${metric} ${significant(o.constraint?.value ?? Number.NaN)} is over ${max}`
    : formatObservedCost(recorded, o, cost)
}

/** '$0.11 per million requests'. */
function formatObservedCost(
  { problem }: RecordedTable,
  { configuration, ...observation }: Observation,
  cost: number,
): string {
  const capacityRps = observation.state === 'complete' ? (observation.rate?.value ?? 0) : 0
  return formatCost(
    problem.objective,
    { cost, ...resolveReplicaPrice(problem.pricePerHour, configuration), capacityRps },
    writing,
  )
}

function formatVerdict({ task, recorded, truth, run }: ReplayReport): string {
  const { best, observations, probabilityBetterExists } = run
  const { metric, max } = task.constraint
  const configurationCount = recorded.configurations.length
  if (!best) {
    return `No configuration that the search tried meets ${metric} <= ${max}: ${truth.feasible || 'none'} of ${configurationCount} recorded configurations can.`
  }
  const certainty =
    probabilityBetterExists === undefined
      ? ''
      : `; P(something untried is more than 5 % cheaper) = ${significant(probabilityBetterExists)}`
  return `${formatConfiguration(best.configuration)}: ${formatOutcome(task, recorded, best)}, found in ${observations.length} of ${configurationCount} recorded configurations${certainty}`
}

function formatRegret({ task, recorded, run: { best, regret: share } }: ReplayReport): string[] {
  if (!best) return []
  if (share === undefined) {
    const truly = recorded.measure(best.configuration)
    const value =
      truly.state === 'complete' ? significant(truly.constraint?.value ?? Number.NaN) : 'none'
    return [
      `By the recorded figures, it violates the limit: ${task.constraint.metric} is ${value}, over ${task.constraint.max}.`,
    ]
  }
  return [
    share < 5e-4
      ? 'It is the cheapest of the table.'
      : `It is within ${percent(share)} of the cheapest of the table.`,
  ]
}

const formatNoise = ({ noise: sd, run: { seed } }: ReplayReport): string[] =>
  sd === 0
    ? []
    : [
        `Noise of ${percent(sd)} was added to every measurement (lognormal, seed ${seed}): the list shows the noisy values; statements about the table use the recorded figures.`,
      ]

/** Look-ups of the search and of random search. */
function formatComparison({ lookUps, maxTrials, sampler }: ReplayReport): string[] {
  if (!lookUps) return []
  const { seeds, ours, random } = lookUps
  const after = ({ median, p90, reached }: LookUps) => {
    if (reached === 0) return 'never'
    if (seeds === 1) return `after ${median} look-up${median === 1 ? '' : 's'}`
    return Number.isFinite(median)
      ? `after ${median} look-ups (median; p90 ${Number.isFinite(p90) ? p90 : 'never'}; ${percent(reached)} of runs)`
      : `in ${percent(reached)} of runs`
  }
  const runs = seeds === 1 ? 'the same seed' : `the same ${seeds} seeds`
  return [
    `Within 5 % of the cheapest, at most ${maxTrials} look-ups: ${sampler === 'gp' ? 'the search' : sampler} ${after(ours)}, random search ${after(random)}, with ${runs}.`,
  ]
}

const formatConfiguration = (configuration: Configuration): string =>
  Object.entries(configuration)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')

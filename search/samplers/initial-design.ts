import { logCdf } from '../gp/normal.ts'
import { affectsPrice } from '../model/price-axis.ts'
import { getMetric, logCost } from '../objective.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import { sampleRepresentatives } from '../space/candidates.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Observation, Problem, Rng, Suggestion } from '../types.ts'

/** Trials that the device model may choose before one of them has served. */
const maxDeviceModelTrials = 2
/** Initial trials: two, plus one for each parameter without a known direction, up to six. */
const minInitialTrials = 2
const maxInitialTrials = 6
/** Candidates that are compared for a space-filling trial. */
const maxComparedCandidates = 1_000
/** The first trial is drawn from this share of the candidates, the nearest to the centre. */
const centralShare = 0.03

/**
 * A trial of the initial design: the device model's two cheapest until one serves, else the
 * space-filling design. Undefined once the surrogate leads.
 */
export function suggestInitialTrial(
  problem: Problem,
  observations: readonly Observation[],
  taken: readonly Configuration[],
  configurations: readonly Configuration[],
  rng: Rng,
): Suggestion | undefined {
  const hasServed = observations.some((o) => o.state === 'complete' && o.rate?.value !== 0)
  if (problem.priorLogRate) {
    if (hasServed) return undefined
    if (observations.length < maxDeviceModelTrials) {
      const suggestion = suggestCheapestByDeviceModel(problem, configurations)
      if (suggestion) return suggestion
    }
  }
  return taken.length < countInitialTrials(problem) || observations.length === 0
    ? suggestSpaceFilling(problem, taken, configurations, rng)
    : undefined
}

/**
 * Number of initial trials before the surrogate leads. A parameter has a known direction if it is
 * monotone, a concurrency, or affects the price. No direction is known for a metric of the server.
 */
export function countInitialTrials(problem: Problem): number {
  const isMetric = getMetric(problem.objective) !== undefined
  const undirected = problem.space.parameters.filter(
    (p) => isMetric || (!p.concurrency && !p.monotone && !affectsPrice(problem, p.name)),
  )
  return Math.min(minInitialTrials + undirected.length, maxInitialTrials)
}

/**
 * A space-filling trial by greedy k-medoids: the first near the centre, each further one where it
 * most reduces the mean distance from the space to its nearest trial. It stays away from corners,
 * which are rarely good and often infeasible.
 */
export function suggestSpaceFilling(
  problem: Problem,
  taken: readonly Configuration[],
  configurations: readonly Configuration[],
  rng: Rng,
): Suggestion {
  const why = 'start: space-filling'
  const encoder = createEncoder(problem.space)
  const rows = sampleRepresentatives(problem.space).map((c) => encoder.encode(c))
  const stride = Math.max(1, Math.ceil(configurations.length / maxComparedCandidates))
  const candidates = configurations.filter((_, i) => i % stride === 0)
  const encoded = candidates.map((c) => encoder.encode(c))
  if (taken.length === 0) {
    const centre = rows[0]!.map((_, j) => rows.reduce((sum, row) => sum + row[j]!, 0) / rows.length)
    const byDistance = candidates.map((configuration, i) => ({
      configuration,
      distance: computeDistance(encoded[i]!, centre),
    }))
    byDistance.sort((a, b) => a.distance - b.distance)
    const central = Math.max(1, Math.round(centralShare * byDistance.length))
    return { configuration: byDistance[rng.fork('start').int(central)]!.configuration, why }
  }
  const takenRows = taken.map((c) => encoder.encode(c))
  const nearest = rows.map((row) => Math.min(...takenRows.map((t) => computeDistance(row, t))))
  const reductions = encoded.map((candidate) =>
    rows.reduce(
      (sum, row, i) => sum + Math.max(0, nearest[i]! - computeDistance(row, candidate)),
      0,
    ),
  )
  return { configuration: candidates[reductions.indexOf(Math.max(...reductions))]!, why }
}

function computeDistance(a: Float64Array, b: Float64Array): number {
  let sum = 0
  for (let j = 0; j < a.length; j++) sum += (a[j]! - b[j]!) ** 2
  return Math.sqrt(sum)
}

/** Error of the device model's unloaded latency, as a standard deviation of its logarithm. */
const latencySd = 0.15
/** Scores within this distance of the highest are ties: 2 % of a cost. */
const tieTolerance = 0.02

/**
 * The cheapest configuration by the device model before any trial. Its score is P(constraint met) ×
 * P(memory suffices) / expected cost. Of ties the first of the space wins: it needs the fewest
 * resources, and small batches make short trials. Undefined where the device model does not apply.
 */
export function suggestCheapestByDeviceModel(
  problem: Problem,
  configurations: readonly Configuration[],
): Suggestion | undefined {
  const logLimit =
    problem.constraintLimit === undefined ? undefined : Math.log(problem.constraintLimit)
  const scored = configurations.flatMap((configuration) => {
    const logRate = problem.priorLogRate?.(configuration)
    if (logRate === undefined) return []
    const logConstraint = problem.priorLogConstraint?.(configuration)
    const expectedLogCost = logCost(
      problem.objective,
      resolveReplicaPrice(problem.pricePerHour, configuration),
      logRate,
      logConstraint ?? 0,
    )
    const logMet =
      logLimit === undefined || logConstraint === undefined
        ? 0
        : logCdf((logLimit - logConstraint) / latencySd)
    const logFits = Math.log(problem.memoryFitProbability?.(configuration) ?? 1)
    return [{ configuration, score: logMet + logFits - expectedLogCost }]
  })
  const highest = scored.reduce((max, { score }) => Math.max(max, score), -Infinity)
  const first = scored.find(({ score }) => score > highest - tieTolerance)
  return first && { configuration: first.configuration, why: 'start: cheapest by the device model' }
}

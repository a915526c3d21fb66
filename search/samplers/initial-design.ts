import { logCdf } from '../gp/normal.ts'
import { affectsPrice } from '../model/price-axis.ts'
import { computeLogCost, getMetric } from '../objective.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import { sampleRepresentatives } from '../space/candidates.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Observation, Problem, Rng, Suggestion } from '../types.ts'

/** Trials that the device model may choose before one of them has served. Assumed. */
const maxDeviceModelTrials = 2
/**
 * Initial trials: two, plus one for each parameter without a known direction, up to six. Assumed.
 */
const minInitialTrials = 2
const maxInitialTrials = 6
/** Candidates that are compared for a space-filling trial. Assumed. */
const maxComparedCandidates = 1_000
/**
 * The first trial is sampled from this share of the candidates, the nearest to the centre. Assumed.
 */
const centralShare = 0.03

/**
 * Suggests a trial of the initial design: the device model's two cheapest until one serves, else
 * the space-filling design. Undefined once the surrogate leads.
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
 * Counts the initial trials before the surrogate leads. A parameter has a known direction if it is
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
 * Suggests a space-filling trial by greedy k-medoids: the first near the centre, each further one
 * where it most reduces the mean distance from the space to its nearest trial. It stays away from
 * corners, which are rarely good and often infeasible.
 */
export function suggestSpaceFilling(
  problem: Problem,
  taken: readonly Configuration[],
  configurations: readonly Configuration[],
  rng: Rng,
): Suggestion {
  const { encode } = createEncoder(problem.space)
  const space = sampleRepresentatives(problem.space).map(encode)
  const stride = Math.max(1, Math.ceil(configurations.length / maxComparedCandidates))
  const candidates = configurations
    .filter((_, i) => i % stride === 0)
    .map((configuration) => ({ configuration, row: encode(configuration) }))
  const { configuration } =
    taken.length === 0
      ? sampleCentral(candidates, space, rng.fork('start'))
      : findMostFilling(candidates, space, taken.map(encode))
  return { configuration, why: 'start: space-filling' }
}

/** A candidate with its encoded row. */
interface EncodedCandidate {
  readonly configuration: Configuration
  readonly row: Float64Array
}

/** Samples one of the candidates nearest to the mean of the space's rows. */
function sampleCentral(
  candidates: readonly EncodedCandidate[],
  space: readonly Float64Array[],
  rng: Rng,
): EncodedCandidate {
  const centre = space[0]!.map(
    (_, j) => space.reduce((sum, row) => sum + row[j]!, 0) / space.length,
  )
  const byDistance = candidates
    .map((candidate) => ({ ...candidate, distance: computeDistance(candidate.row, centre) }))
    .sort((a, b) => a.distance - b.distance)
  return byDistance[rng.int(Math.max(1, Math.round(centralShare * byDistance.length)))]!
}

/**
 * Finds the candidate that most reduces the mean distance from the space's rows to their nearest
 * trial.
 */
function findMostFilling(
  candidates: readonly EncodedCandidate[],
  space: readonly Float64Array[],
  takenRows: readonly Float64Array[],
): EncodedCandidate {
  const nearestDistances = space.map((row) =>
    Math.min(...takenRows.map((taken) => computeDistance(row, taken))),
  )
  const reductions = candidates.map((candidate) =>
    space.reduce(
      (sum, row, i) =>
        sum + Math.max(0, nearestDistances[i]! - computeDistance(row, candidate.row)),
      0,
    ),
  )
  return candidates[reductions.indexOf(Math.max(...reductions))]!
}

function computeDistance(a: Float64Array, b: Float64Array): number {
  let sum = 0
  for (let j = 0; j < a.length; j++) sum += (a[j]! - b[j]!) ** 2
  return Math.sqrt(sum)
}

/**
 * Error of the device model's unloaded latency, as a standard deviation of its logarithm. Assumed.
 */
const latencySd = 0.15
/** Scores within this distance of the highest are ties: 2 % of a cost. Assumed. */
const tieTolerance = 0.02

/**
 * Suggests the cheapest configuration by the device model before any trial. Its score is
 * P(constraint met) × P(memory suffices) / expected cost. Of ties the first of the space wins: it
 * needs the fewest resources, and small batches make short trials. Undefined where the device model
 * does not apply.
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
    const expectedLogCost = computeLogCost(
      problem.objective,
      resolveReplicaPrice(problem.pricePerHour, configuration),
      logRate,
      logConstraint ?? 0,
    )
    const logMetProbability =
      logLimit === undefined || logConstraint === undefined
        ? 0
        : logCdf((logLimit - logConstraint) / latencySd)
    const logMemoryFit = Math.log(problem.memoryFitProbability?.(configuration) ?? 1)
    return [{ configuration, score: logMetProbability + logMemoryFit - expectedLogCost }]
  })
  const highest = scored.reduce((max, { score }) => Math.max(max, score), -Infinity)
  const first = scored.find(({ score }) => score > highest - tieTolerance)
  return first && { configuration: first.configuration, why: 'start: cheapest by the device model' }
}

import { logCdf } from '../gp/normal.ts'
import { movesPrice, representatives } from '../model/design-matrix.ts'
import { logCost, metricOf } from '../objective.ts'
import { priceOf } from '../replica-price.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Problem, Rng, Suggestion } from '../types.ts'

const CANDIDATES = 1_000
const MIDDLE = 0.03

/**
 * How many trials to spread before the model leads: two, and one for each parameter of which not
 * even the direction is known, for neither the price nor what it means tells.
 */
export function startCount(problem: Problem): number {
  const unforeseen = metricOf(problem.objective) !== undefined
  const unknown = problem.space.parameters.filter(
    (p) => unforeseen || (!p.concurrency && !p.monotone && !movesPrice(problem, p.name)),
  )
  return Math.min(2 + unknown.length, 6)
}

/**
 * Spreads the first trials: one near the middle, each next one where it most shortens the mean
 * distance of the space to its nearest trial (greedy k-medoids: inside the space, where corners are
 * seldom good and often cannot serve).
 */
export function spread(
  problem: Problem,
  taken: readonly Configuration[],
  configurations: readonly Configuration[],
  rng: Rng,
): Suggestion {
  const why = 'start: space-filling'
  const encoder = createEncoder(problem.space)
  const rows = representatives(problem).map((c) => encoder.encode(c))
  const stride = Math.max(1, Math.ceil(configurations.length / CANDIDATES))
  const candidates = configurations.filter((_, i) => i % stride === 0)
  const encoded = candidates.map((c) => encoder.encode(c))
  if (taken.length === 0) {
    const middle = rows[0]!.map((_, j) => rows.reduce((sum, row) => sum + row[j]!, 0) / rows.length)
    const near = candidates.map((configuration, i) => ({
      configuration,
      distance: distance(encoded[i]!, middle),
    }))
    near.sort((a, b) => a.distance - b.distance)
    return {
      configuration:
        near[rng.fork('start').int(Math.max(1, Math.round(MIDDLE * near.length)))]!.configuration,
      why,
    }
  }
  const known = taken.map((c) => encoder.encode(c))
  const nearest = rows.map((row) => Math.min(...known.map((k) => distance(row, k))))
  const gains = encoded.map((candidate) =>
    rows.reduce((sum, row, i) => sum + Math.max(0, nearest[i]! - distance(row, candidate)), 0),
  )
  return { configuration: candidates[gains.indexOf(Math.max(...gains))]!, why }
}

function distance(a: Float64Array, b: Float64Array): number {
  let sum = 0
  for (let j = 0; j < a.length; j++) sum += (a[j]! - b[j]!) ** 2
  return Math.sqrt(sum)
}

/** How sure physics is of an idle latency, as a standard deviation of its logarithm. */
const PHYSICS_SD = 0.15
/** Costs that differ by less physics does not tell apart, of ln. */
const TIE = 0.02

/**
 * Before anything is measured: the least expected cost by physics, weighed by how surely the
 * constraint is met and the memory suffices; pending ones are taken to be right. Of those that
 * physics does not tell apart the first of the space, which asks for the least: a small batch
 * answers soon, and its capacity shows in a short trial. Undefined where physics knows nothing of
 * any configuration.
 */
export function cheapestByPhysics(
  problem: Problem,
  configurations: readonly Configuration[],
): Suggestion | undefined {
  const limit =
    problem.constraintLimit === undefined ? undefined : Math.log(problem.constraintLimit)
  const scored = configurations.flatMap((configuration) => {
    const logRate = problem.priorLogRate?.(configuration)
    if (logRate === undefined) return []
    const logConstraint = problem.priorLogConstraint?.(configuration)
    const cost = logCost(
      problem.objective,
      priceOf(problem.pricePerHour, configuration),
      logRate,
      logConstraint ?? 0,
    )
    const met =
      limit === undefined || logConstraint === undefined
        ? 0
        : logCdf((limit - logConstraint) / PHYSICS_SD)
    const fits = Math.log(problem.fitsMemory?.(configuration) ?? 1)
    return [{ configuration, score: met + fits - cost }]
  })
  const highest = scored.reduce((most, { score }) => Math.max(most, score), -Infinity)
  const first = scored.find(({ score }) => score > highest - TIE)
  return first && { configuration: first.configuration, why: 'start: cheapest by the device model' }
}

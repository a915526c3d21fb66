import { computeLogAcquisition } from '../acquisition/expected-improvement.ts'
import { climb, preselect } from '../acquisition/maximise.ts'
import { z90 } from '../gp/normal.ts'
import { computeLogFeasible, type Predictions } from '../model/feasibility.ts'
import { computeQuantileOffset } from '../model/saturating-predictive.ts'
import { fitSurrogate, type Surrogate } from '../model/surrogate.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import { type Candidates, findCandidates } from '../space/candidates.ts'
import { findNeighbours, findPollPoints } from '../space/neighbours.ts'
import { configurationKey } from '../space/space.ts'
import { findIncumbent } from '../stopping/incumbent.ts'
import type { Configuration, Observation, Problem, Rng, Sampler, Suggestion } from '../types.ts'
import { countInitialTrials, suggestInitialTrial, suggestSpaceFilling } from './initial-design.ts'

/**
 * Trials chosen by a device-model prior that is then rejected; they do not count as initial trials.
 * Assumed: the first trial usually shows a wrong prior.
 */
const trialsBeforePriorRejected = 1
/**
 * The acquisition has collapsed where the expected improvement is below 1 % of the cost for every
 * candidate. The surrogate may then be wrong far from its trials, so that every second choice polls
 * the neighbourhood of the incumbent instead. Below 2 %, the family ribbon takes 16.6 trials, not
 * 16.1 (docs/research/search.md, tried without gain).
 */
const minExpectedImprovement = 0.01
/** Longer lists of candidates are thinned to this many before they are scored. Assumed. */
const maxScoredCandidates = 8_192

/**
 * Bayesian optimisation with Gaussian processes. Initial trials come from the device model, or fill
 * the space; each further trial maximises expected improvement × P(feasible).
 */
export const gpSampler: Sampler = {
  name: 'gp',
  suggest(problem, observations, pending, rng, trialSeconds) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const candidates = findCandidates(problem, taken, rng.fork('gp'))
    const { configurations } = candidates
    if (configurations.length === 0) return undefined

    // Initial design.
    const initial = suggestInitialTrial(problem, observations, taken, configurations, rng)
    if (initial) return initial

    // Fit. Where the first trials contradict the prior, the initial design is completed first.
    const surrogate = fitSurrogate(problem, observations, pending)
    const isPriorRejected = problem.priorLogRate !== undefined && !surrogate.isPriorAccepted
    if (isPriorRejected && taken.length < countInitialTrials(problem) + trialsBeforePriorRejected)
      return suggestSpaceFilling(problem, taken, configurations, rng)

    // Score and choose.
    const scorer = new Scorer(problem, observations, taken, surrogate, trialSeconds)
    const best = scorer.maximise(thinCandidates(candidates, rng.fork('scored')))
    if (best.expectedImprovement >= minExpectedImprovement) return best.suggestion

    // Fallback when the acquisition has collapsed: a poll in every second trial.
    const isPollTurn = observations.length % 2 === 0
    return (isPollTurn ? scorer.poll() : undefined) ?? best.suggestion
  },
}

/** A smaller expected improvement is shown as 0 %. */
const minShownPercent = 0.01

interface ScoredCandidates {
  readonly candidates: readonly Configuration[]
  readonly predictions: Predictions
  /** ln(expected improvement × P(feasible)), m. */
  readonly acquisition: Float64Array
  /**
   * Acquisition per second where trials differ in duration (Snoek, Larochelle and Adams, NeurIPS
   * 2012, §3.2), m.
   */
  readonly scores: Float64Array
}

/** Scores candidates with a surrogate, and maximises the score. */
class Scorer {
  readonly #incumbent: ReturnType<typeof findIncumbent>
  readonly #takenKeys: ReadonlySet<string>

  constructor(
    private readonly problem: Problem,
    observations: readonly Observation[],
    taken: readonly Configuration[],
    private readonly surrogate: Surrogate,
    private readonly trialSeconds?: (configuration: Configuration) => number,
  ) {
    this.#incumbent = findIncumbent(problem, observations, surrogate)
    this.#takenKeys = new Set(taken.map(configurationKey))
  }

  /**
   * Finds the candidate with the highest score, refined by local search where the list is a sample.
   * Also returns the largest expected improvement of any candidate, as a share of the cost; it is 1
   * without an incumbent.
   */
  maximise({ configurations, isComplete }: Candidates): {
    suggestion: Suggestion
    expectedImprovement: number
  } {
    const { problem } = this
    const sample = this.#score(preselect(configurations, (all) => this.#score(all, 'approximate')))
    const findUntakenNeighbours = (c: Configuration) =>
      this.#filterUntaken(findNeighbours(problem.space, c))
    const { scored, index } = findHighest(
      isComplete
        ? sample
        : climb(sample, findUntakenNeighbours, (candidates) => this.#score(candidates)),
    )
    const toShare = (logImprovement: number) => 1 - Math.exp(-Math.exp(logImprovement))
    const percent = 100 * toShare(scored.acquisition[index]!)
    const percentText = percent < minShownPercent ? '0' : percent.toPrecision(2)
    const why = this.#incumbent
      ? `expected improvement ${percentText} %`
      : 'most probably feasible and cheap'
    const expectedImprovement = this.#incumbent
      ? toShare(scored.acquisition.reduce((max, value) => Math.max(max, value), -Infinity))
      : 1
    return { suggestion: this.#suggest(scored, index, why, isComplete), expectedImprovement }
  }

  /** Finds the best poll point around the incumbent; undefined if none can improve on it. */
  poll(): Suggestion | undefined {
    const points = this.#incumbent
      ? this.#filterUntaken(findPollPoints(this.problem.space, this.#incumbent.configuration))
      : []
    if (points.length === 0) return undefined
    const { scored, index } = findHighest(this.#score(points))
    return scored.scores[index] === -Infinity
      ? undefined
      : this.#suggest(scored, index, 'near the incumbent: no improvement expected', true)
  }

  #filterUntaken(configurations: readonly Configuration[]): Configuration[] {
    return configurations.filter(
      (c) => !this.#takenKeys.has(configurationKey(c)) && !this.problem.cannotServe?.(c),
    )
  }

  #score(candidates: readonly Configuration[], accuracy?: 'approximate'): ScoredCandidates {
    const { problem, trialSeconds } = this
    const predictions = this.surrogate.predict(candidates, accuracy)
    const prices = candidates.map((c) => resolveReplicaPrice(problem.pricePerHour, c))
    const acquisition = computeLogAcquisition(
      problem,
      prices,
      predictions,
      this.#incumbent?.logCost ?? Infinity,
    )
    return {
      candidates,
      predictions,
      acquisition,
      scores: trialSeconds
        ? acquisition.map((value, i) => value - Math.log(trialSeconds(candidates[i]!)))
        : acquisition,
    }
  }

  #suggest(
    { candidates, predictions }: ScoredCandidates,
    index: number,
    why: string,
    isComplete: boolean,
  ): Suggestion {
    const warnings = [...this.surrogate.warnings, ...(isComplete ? [] : [sampledWarning])]
    return {
      configuration: candidates[index]!,
      why,
      ...describePrediction(this.problem, predictions, index),
      ...(warnings.length > 0 ? { warning: warnings.join('; ') } : {}),
    }
  }
}

const sampledWarning =
  'the space is too large to score whole; a sample is scored, and the neighbours of its best'

const findHighest = (scored: ScoredCandidates): { scored: ScoredCandidates; index: number } => ({
  scored,
  index: scored.scores.reduce((best, score, i) => (score > scored.scores[best]! ? i : best), 0),
})

/** Thins a longer list to `maxScoredCandidates`: one sampled from each of as many equal parts. */
function thinCandidates({ configurations, isComplete }: Candidates, rng: Rng): Candidates {
  if (configurations.length <= maxScoredCandidates) return { configurations, isComplete }
  const partLength = configurations.length / maxScoredCandidates
  return {
    configurations: Array.from(
      { length: maxScoredCandidates },
      (_, i) => configurations[Math.floor((i + rng.next()) * partLength)]!,
    ),
    isComplete: false,
  }
}

/** Describes the predicted rate with its 90 % interval, and P(feasible); empty without a rate. */
function describePrediction(
  problem: Problem,
  predictions: Predictions,
  index: number,
): Pick<Suggestion, 'predicted'> {
  if (!predictions.rate) return {}
  const mean = predictions.rate.mean[index]!
  const [low, high] = [-z90, z90].map((z) =>
    Math.exp(mean + computeQuantileOffset(predictions.rate!, index, z)),
  ) as [number, number]
  const feasible = Math.exp(computeLogFeasible(problem, predictions)[index]!)
  return { predicted: { rate: Math.exp(mean), low, high, feasible } }
}

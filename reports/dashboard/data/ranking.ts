/**
 * Ranking in the page: the shared code, with caches for what stays the same between two rankings.
 * Pure.
 */

import type { CurveKnot } from '../../../profiler/capacity/capacity-bounds.ts'
import { buildLoadCurve } from '../../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../../profiler/model/measurement.ts'
import { haveSameLatency, type Slo } from '../../../profiler/model/slo.ts'
import type { ReplicaPrice } from '../../../search/replica-price.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration, Objective } from '../../../search/types.ts'
import { splitConfiguration, sumOverStages } from '../../../trials/pipeline/stage-configuration.ts'
import {
  listBundles,
  type PriceBook,
  PriceError,
  pricePerHour,
} from '../../../trials/prices/book.ts'
import { describeConfiguration, parseResources } from '../../../trials/resources.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import type { RankedCandidate, RankingCriteria } from '../../recommendation/ranked-candidate.ts'
import { compareRank, rankCandidates } from '../../recommendation/ranking.ts'
import { type RecommendInput, recommend, recommendFrom } from '../../recommendation/recommend.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
import { Contenders } from './contenders.ts'
import type { DashboardExperiment } from './page-data.ts'
import { TrialGroups } from './trial-groups.ts'

/** Settings that the page can change without new trials. */
export interface WhatIf {
  readonly slo: Slo
  readonly objective: Objective
  readonly prices: PriceBook
  /** Minimum quality of model variants. */
  readonly minQuality?: number
}

/** Picks the experiment's own settings. */
export const pickOwnQuestion = ({
  slo,
  objective,
  prices,
  minQuality,
}: DashboardExperiment): WhatIf => ({ slo, objective, prices, minQuality })

/** Whether the settings are the experiment's own: only then is its stop rule's certainty valid. */
export const isOwnQuestion = (experiment: DashboardExperiment, whatIf: WhatIf): boolean =>
  JSON.stringify(pickOwnQuestion(experiment)) ===
  JSON.stringify({
    slo: whatIf.slo,
    objective: whatIf.objective,
    prices: whatIf.prices,
    minQuality: whatIf.minQuality,
  })

/** Ranks the trials of one experiment under changing settings. */
export class Ranker {
  readonly #curves = new WeakMap<Measurement, { slo: Slo; curve: readonly CurveKnot[] }>()
  readonly #labels = new WeakMap<Configuration, string>()
  #pricing?: { readonly book: PriceBook; readonly pricePerHour: RankingCriteria['pricePerHour'] }
  readonly #groups = new TrialGroups()
  readonly #contenders = new Contenders()

  constructor(readonly experiment: DashboardExperiment) {}

  /** SLO, objective, prices, labels and load curves as `recommend` and `judge` take them. */
  createCriteria({ slo, objective, prices, minQuality }: WhatIf): RankingCriteria {
    if (prices !== this.#pricing?.book)
      this.#pricing = { book: prices, pricePerHour: createPricing(prices, this.experiment.ownGpus) }
    return {
      slo,
      objective,
      pricePerHour: this.#pricing.pricePerHour,
      label: (c) => this.label(c),
      ...(this.experiment.qualities && {
        quality: (c) => this.experiment.qualities?.[String(c.variant)],
        minQuality,
      }),
      curve: (measurement, under) => this.#findCurve(measurement, under),
    }
  }

  label(configuration: Configuration): string {
    return memoise(this.#labels, configuration, () =>
      describeConfiguration(configuration, {}, this.experiment.ownGpus),
    )
  }

  /**
   * The recommendation under changed settings.
   * @param measuredWith as in `recommend`; absent in the page, which has no resolved experiment
   */
  recommend(
    trials: readonly FinishedTrial[],
    whatIf: WhatIf,
    measuredWith?: RecommendInput['measuredWith'],
  ): Recommendation {
    return recommend({ ...this.#createInput(trials, whatIf), measuredWith })
  }

  /**
   * Recommends in steps of one configuration, so that the caller can yield in between.
   * @param trials may only grow between calls
   */
  *recommendInSteps(
    trials: readonly FinishedTrial[],
    whatIf: WhatIf,
  ): Generator<undefined, Recommendation> {
    const input = this.#createInput(trials, whatIf)
    const all: RankedCandidate[] = []
    for (const group of this.#groups.groupTrials(trials)) {
      all.push(...rankCandidates(group.trials, input))
      yield
    }
    all.sort(compareRank)
    yield
    return recommendFrom(all, input)
  }

  /**
   * A fast recommendation from the contenders only. Their figures and rivals are exact; all other
   * trials are left out.
   * @param trials may only grow between calls
   */
  recommendQuickly(trials: readonly FinishedTrial[], whatIf: WhatIf): Recommendation {
    const contenders = this.#contenders.selectContenders(
      this.#groups.groupTrials(trials),
      this.createCriteria(whatIf),
    )
    return { ...this.recommend(contenders, whatIf), trials: trials.length }
  }

  #createInput(trials: readonly FinishedTrial[], whatIf: WhatIf): RecommendInput {
    const { experiment } = this
    return {
      ...this.createCriteria(whatIf),
      experimentId: experiment.id,
      provenance: experiment.provenance,
      seed: experiment.seed,
      trials,
      confirm: experiment.confirm,
      maxTrials: experiment.maxTrials,
      notices: experiment.notices,
      ...(experiment.stop && isOwnQuestion(experiment, whatIf) ? { stop: experiment.stop } : {}),
    }
  }

  /** Some candidates with their measurements and load curves, in the order given. */
  addMeasurements(
    trials: readonly FinishedTrial[],
    candidates: readonly Candidate[],
    whatIf: WhatIf,
  ): RankedCandidate[] {
    const candidateKeys = new Set(candidates.map((c) => configurationKey(c.configuration)))
    const all = rankCandidates(
      trials.filter((t) => candidateKeys.has(configurationKey(t.configuration))),
      this.createCriteria(whatIf),
    )
    const byTrial = new Map(all.map((j) => [j.candidate.trial, j]))
    return candidates.flatMap((c) => byTrial.get(c.trial) ?? [])
  }

  /**
   * A load curve depends on metric, percentile and error bound, not on the limit, so dragging a
   * limit rebuilds none.
   */
  #findCurve(measurement: Measurement, slo: Slo): readonly CurveKnot[] {
    const cached = this.#curves.get(measurement)
    if (
      cached &&
      haveSameLatency(cached.slo, slo) &&
      cached.slo.percentile === slo.percentile &&
      cached.slo.maxErrorRate === slo.maxErrorRate
    )
      return cached.curve
    const curve = buildLoadCurve(measurement, slo)
    this.#curves.set(measurement, { slo, curve })
    return curve
  }
}

function memoise<V>(
  memory: WeakMap<Configuration, V>,
  configuration: Configuration,
  make: () => V,
): V {
  let value = memory.get(configuration)
  if (value === undefined) {
    value = make()
    memory.set(configuration, value)
  }
  return value
}

/** Pricing by a price book, cached per configuration. */
function createPricing(
  book: PriceBook,
  ownGpus: DashboardExperiment['ownGpus'],
): RankingCriteria['pricePerHour'] {
  const cachedPrices = new WeakMap<Configuration, ReplicaPrice>()
  const price = (c: Configuration) =>
    memoise(cachedPrices, c, () => priceConfiguration(c, book, ownGpus))
  return Object.assign((c: Configuration) => price(c).pricePerHour, {
    bundles: (c: Configuration) => price(c).bundles,
  })
}

function priceConfiguration(
  configuration: Configuration,
  book: PriceBook,
  ownGpus: DashboardExperiment['ownGpus'],
): ReplicaPrice {
  const parse = (one: Configuration) => parseResources(one, {}, ownGpus)
  try {
    return {
      pricePerHour: sumOverStages(configuration, (one) => pricePerHour(parse(one), book)),
      bundles:
        splitConfiguration(configuration) === undefined
          ? listBundles(parse(configuration), book)
          : undefined,
    }
  } catch (error) {
    // An edited price book may lack a GPU: its configurations are shown without a price and
    // rank last.
    if (error instanceof PriceError) return { pricePerHour: Number.POSITIVE_INFINITY }
    throw error
  }
}

/** Requests that a dollar buys at a rate. */
export const computeRequestsPerDollar = (rps: number, perHour: number): number =>
  (rps * 3600) / perHour

/** Gets the 'gpu' of a configuration, 'CPU' for those without; of a pipeline all of them. */
export function getDevice(configuration: Configuration): string {
  const stages = splitConfiguration(configuration)?.map((stage) => stage.configuration)
  const devices = (stages ?? [configuration]).map(({ gpu }) =>
    gpu === undefined || gpu === 'none' ? 'CPU' : String(gpu),
  )
  return [...new Set(devices)].join(' + ')
}

/**
 * What the cheapest configuration of an emulated space is, apart from any run: all of them by the
 * device model in virtual time, then a few under long real load.
 */
import { join } from 'node:path'
import { measureCapacity, protocolFor } from '../../profiler/index.ts'
import { computeCost } from '../../search/objective.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { describeConfiguration } from '../../trials/resources.ts'
import { findExperiment, openExistingStore } from '../cli/commands/open-existing.ts'
import { createHostContext } from '../config/host-context.ts'
import { loadExperimentDocument } from '../config/load-experiment.ts'
import type { Experiment, ExperimentDocument } from '../config/types.ts'
import { createCapacityEstimator, createProblem, loadPriceBook } from '../problem/problem.ts'
import { onBuiltin } from './built-predictor.ts'

export interface Cost {
  readonly label: string
  /** By the device model; of a configuration under real load by that. */
  readonly capacityRps: number
  readonly pricePerHour: number
  readonly cost: number
}

/** The experiment whose store lies in a folder, as it was run there. */
export async function experimentIn(folder: string): Promise<Experiment> {
  const store = await openExistingStore(join(folder, '.tune', 'tune.db'))
  try {
    const { experiment: record } = await findExperiment(store, undefined)
    return loadExperimentDocument(
      record.spec as ExperimentDocument,
      record.id,
      createHostContext(await inspectMachine()),
    )
  } finally {
    await store.close()
  }
}

/**
 * Costs by configuration, of all that serve by the device model, cheapest first. Empty if it
 * knows nothing of the predictor.
 */
export async function modelledCosts(
  experiment: Experiment,
): Promise<ReadonlyMap<string, Cost & { readonly configuration: Configuration }>> {
  const expectation = createCapacityEstimator(experiment)
  if (expectation === undefined) return new Map()
  const { pricePerHour } = createProblem(experiment, await loadPriceBook(undefined))
  const all = enumerateConfigurations(experiment.space).flatMap((configuration) => {
    const capacityRps = expectation(configuration)
    if (capacityRps === undefined) return []
    return [
      {
        configuration,
        ...costAt(experiment, configuration, {
          capacityRps,
          pricePerHour: pricePerHour(configuration),
        }),
      },
    ]
  })
  return new Map(
    all
      .sort((a, b) => a.cost - b.cost)
      .map((known) => [configurationKey(known.configuration), known]),
  )
}

/** The same of one under real load, about twenty seconds of it. */
export async function measuredCost(
  experiment: Experiment,
  configuration: Configuration,
  pricePerHour: number,
): Promise<Cost> {
  const { slo, model } = experiment
  const { signal } = new AbortController()
  const { capacityRps } = await onBuiltin(model.architecture, configuration, async (url) => {
    const target = await protocolFor('oip-v2').prepare(
      url,
      model.architecture,
      { kind: 'generated', count: 64, seed: 1 },
      signal,
    )
    return measureCapacity({ target, slo, signal, effort: 'standard', seed: 4242 })
  })
  return costAt(experiment, configuration, { capacityRps, pricePerHour })
}

export const costAt = (
  { objective }: Experiment,
  configuration: Configuration,
  figures: Pick<Cost, 'capacityRps' | 'pricePerHour'>,
): Cost => ({
  label: describeConfiguration(configuration),
  ...figures,
  cost: computeCost(objective, figures),
})

/** Puts the parts together that an experiment asks for. The one place that knows which launcher, generator and sampler there are. */
import { join } from 'node:path'
import { confirmCapacity } from '../../profiler/index.ts'
import { recommend } from '../../reports/recommendation/recommend.ts'
import { assessStop, createRng, createSampler, spaceSize } from '../../search/index.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { TrialStore } from '../../trials/types.ts'
import { writeResults } from '../delivery/results-files.ts'
import type { Experiment } from '../experiment/types.ts'
import { defaultConfiguration } from '../loop/default-configuration.ts'
import { historyOf } from '../loop/history.ts'
import { devicesLine, historyNotices, noticesOf, provenanceOf } from '../loop/notices.ts'
import type { LoopParts } from '../loop/parts.ts'
import { labelOf, loadPriceBook, problemOf, viewOf } from '../loop/problem.ts'
import { launcherOf, measureTrial, protocolOf } from './backend.ts'
import { openCluster } from './cluster.ts'
import { refuseWhatNeverServes } from './estimate-table.ts'
import { effortFor, GeneratorPool } from './generator-pool.ts'

export interface Assembled {
  readonly parts: LoopParts
  close(): Promise<void>
}

/** @throws UserError for what this machine cannot do, and the price book's errors. */
export async function assemble(given: Experiment, experimentId: string, store: TrialStore, machine: MachineFacts): Promise<Assembled> {
  const book = await loadPriceBook(given.pricesPath, given.own.gpus)
  const cluster = given.backend === 'kubernetes' ? await openCluster(given, experimentId, protocolOf(given)) : undefined
  const experiment = cluster?.experiment ?? given
  const { past, unread } = await historyOf(experiment, experimentId, store)
  const problem = { ...problemOf(experiment, book), ...(past.length > 0 ? { history: past } : {}) }
  const label = labelOf(experiment)
  refuseWhatNeverServes(experiment, problem)
  const provenance = provenanceOf(experiment)
  const notices = noticesOf(experiment, provenance)
  const sampler = createSampler(experiment.sampler)
  const generators = new GeneratorPool()
  const outDir = experiment.outDir ?? join(process.cwd(), 'tune-results', experimentId)
  const { slo, load, seed } = experiment
  const inside = cluster?.loadFrom === 'cluster' ? cluster : undefined
  const parts: LoopParts = {
    experimentId,
    provenance,
    problem,
    spaceSize: spaceSize(problem.space),
    defaultConfiguration: defaultConfiguration(problem),
    sampler,
    assessStop: (observations, rng) =>
      assessStop(problem, observations, rng, { tolerance: experiment.stop.tolerance, risk: 1 - experiment.stop.certainty }),
    rng: createRng(experiment.seed),
    launcher: cluster?.launcher ?? launcherOf(experiment, experimentId, machine),
    load: (predictor, options, signal) => {
      if (!inside) return measureTrial(experiment, generators, predictor, options, signal)
      const { number, capacityToBeatRps } = options
      const measure = { kind: 'capacity', effort: effortFor(load.trialSeconds), capacityToBeatRps } as const
      return inside.measure(predictor, { seed: seed + number, measure }, options, signal)
    },
    confirm: (predictor, options, signal) => {
      const { rateRps, number } = options
      const window = { rateRps, seconds: load.confirmSeconds, arrivals: load.arrivals }
      if (inside) return inside.measure(predictor, { seed: seed + number, measure: { kind: 'confirm', ...window } }, options, signal)
      const { target } = predictor
      return generators.use(target, (generator) =>
        confirmCapacity({ ...options, ...window, target, slo, signal, generator, seed: seed + number }),
      )
    },
    store,
    recommend: (trials, stop) =>
      recommend({
        experimentId,
        provenance,
        seed: experiment.seed,
        trials,
        stop,
        notices,
        ...viewOf(experiment, { pricePerHour: problem.pricePerHour, label }),
      }),
    label,
    write: (recommendation, trials) =>
      writeResults({ outDir, recommendation, trials, experiment, pricePerHour: problem.pricePerHour, label }),
    notices: [devicesLine(experiment, machine, provenance), ...historyNotices(past, unread), ...(cluster?.notices ?? []), ...notices],
    now: Date.now,
  }
  return {
    parts,
    close: async () => {
      await parts.launcher.close?.()
      await generators.close()
      await cluster?.close()
    },
  }
}

/** Resolves a stored experiment for the dashboard's page. */
import { stringify } from 'yaml'
import type { DashboardExperiment } from '../../reports/dashboard/data/page-data.ts'
import { pipelineTargets, specTargets } from '../../reports/specs/index.ts'
import type { PriceBook } from '../../trials/prices/book.ts'
import type { ExperimentRecord } from '../../trials/types.ts'
import type { HostContext } from '../config/context.ts'
import { loadExperimentDocument } from '../config/load-experiment.ts'
import type { Experiment, ExperimentDocument } from '../config/types.ts'
import { listGpus, listNotices } from '../loop/notices.ts'
import { readStopPosterior } from '../loop/reevaluation.ts'
import { loadPriceBook } from '../problem/problem.ts'

export interface ExperimentView {
  readonly experiment: Experiment
  readonly dashboard: DashboardExperiment
}

/**
 * @throws ConfigError for a specification that this version cannot read, UserError for a missing
 * price book
 */
export async function createExperimentView(
  record: ExperimentRecord,
  host: HostContext,
): Promise<ExperimentView> {
  const experiment = loadExperimentDocument(record.spec as ExperimentDocument, record.id, {
    ...host,
    isReadOnly: true,
  })
  const prices = await loadPriceBook(experiment.pricesPath, experiment.own.gpus)
  const { slo, objective, headroom, space, sampler, budget } = experiment
  return {
    experiment,
    dashboard: {
      id: record.id,
      name: record.name,
      createdAt: record.createdAt,
      state: record.state,
      provenance: record.provenance,
      seed: record.seed,
      model: (experiment.stages ?? [{ experiment }])
        .map(({ experiment }) => experiment.model.name)
        .join(', '),
      ...(experiment.stages && {
        stages: experiment.stages.map(({ name, calls, parallelCalls }) => ({
          name,
          calls,
          parallelCalls,
        })),
      }),
      hardware: describeHardware(experiment, record),
      load: describeLoad(experiment),
      sampler,
      maxTrials: budget.maxTrials,
      slo,
      objective,
      headroom,
      prices: pickPrices(prices),
      ownGpus: experiment.own.gpus,
      parameters: space.parameters.map(({ when: _, ...parameter }) => parameter),
      ...(experiment.variants.length > 0 && {
        qualities: Object.fromEntries(
          experiment.variants.map(({ name, quality }) => [name, quality]),
        ),
        minQuality: experiment.minQuality,
      }),
      notices: listNotices(experiment, record.provenance),
      stop: readStopPosterior(record),
      confirm: experiment.confirm,
      specification: stringify(record.spec, { lineWidth: 0 }),
      specTargets: experiment.stages === undefined ? specTargets : pipelineTargets,
    },
  }
}

const pickPrices = ({
  name,
  currency,
  gpus,
  vcpu,
  memoryGiB,
  instances,
}: PriceBook): PriceBook => ({
  name,
  currency,
  vcpu,
  memoryGiB,
  gpus,
  ...(instances && { instances }),
})

function describeHardware(experiment: Experiment, { provenance }: ExperimentRecord): string {
  const gpus = listGpus(experiment)
  const place =
    { local: 'on this machine', kubernetes: 'on a cluster', simulated: 'in virtual time' }[
      experiment.backend as string
    ] ?? experiment.backend
  const devices =
    gpus.length > 0
      ? `${gpus.join(', ')}${provenance === 'measured' ? '' : ` (${provenance})`}`
      : 'CPU only'
  return `${devices}, ${place}`
}

function describeLoad({ load: { arrivals, trialSeconds } }: Experiment): string {
  const shape =
    arrivals.kind === 'gamma'
      ? `gamma arrivals (CV ${arrivals.cv})`
      : `${arrivals.kind === 'poisson' ? 'Poisson' : arrivals.kind} arrivals`
  return `${shape}, up to ${trialSeconds} s of load per trial`
}

/** Deployment specs of a pipeline: each stage is deployed by itself, with its own replicas. */
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { renderSpec, type SpecTargetName } from '../../reports/specs/index.ts'
import type { Evidence, Serving } from '../../reports/specs/serving.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import type { SpecFile, SpecOptions, SpecTarget } from '../../reports/specs/target.ts'
import { getDemand } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import { computeVisitRatios } from '../../trials/pipeline/pipeline.ts'
import { findStage } from '../../trials/pipeline/stage-configuration.ts'
import { parseResources } from '../../trials/resources.ts'
import type { FinishedTrial, StageUsage } from '../../trials/types.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import { type DeployOptions, resolveServing } from './serving.ts'

interface StageServingInput {
  readonly experiment: Experiment
  readonly stages: readonly ExperimentStage[]
  readonly recommendation: Recommendation
  readonly candidate: Candidate
  readonly trials: readonly FinishedTrial[]
  /** Price of one replica of a stage. */
  readonly pricePerHour: Pricing<Configuration>
  readonly target: SpecTarget
  readonly options?: DeployOptions
}

/**
 * The servings of all stages by name, callers first. Each caller has the addresses of the stages that
 * it calls.
 * @throws SpecError for a target that deploys no pipelines, and for a candidate that cannot serve
 */
export function resolveStageServings(input: StageServingInput): ReadonlyMap<string, Serving> {
  const { stages, target } = input
  const { stageUrl } = target
  if (stageUrl === undefined)
    throw new SpecError(
      `${target.title} deploys no pipelines`,
      'choose --target kubernetes or --target compose',
    )
  const servings = new Map<string, Serving>()
  for (const stage of stages.toReversed()) {
    const stageUrls = new Map([...servings].map(([name, serving]) => [name, stageUrl(serving)]))
    servings.set(stage.name, resolveStage(stage, stageUrls, input))
  }
  return new Map([...servings].toReversed())
}

function resolveStage(
  { name, experiment: stage }: ExperimentStage,
  stageUrls: ReadonlyMap<string, string>,
  input: StageServingInput,
): Serving {
  const { experiment, stages, recommendation, candidate, trials, pricePerHour } = input
  const stageConfiguration = findStage(candidate.configuration, name)
  if (stageConfiguration === undefined)
    throw new TypeError(`the configuration has no stage ${name}`)
  const { configuration, replicas } = stageConfiguration
  const { cpuCores } = parseResources(configuration, {}, stage.own.gpus)
  const usage = findStageUsage(name, candidate, recommendation, trials)
  const visits = usage?.visits ?? computeVisitRatios({ stages }).get(name)!
  // What one replica of the stage serves while the whole pipeline serves its capacity.
  const scaleRate = (rps: number): number => (rps * visits) / replicas
  const [minRps, maxRps] = candidate.capacityCi90Rps
  const demandRps = input.options?.demandRps ?? getDemand(experiment.objective)?.demandRps
  const serving = resolveServing(
    stage,
    recommendation,
    {
      ...candidate,
      configuration,
      replicas,
      capacityRps: scaleRate(candidate.capacityRps),
      capacityCi90Rps: [scaleRate(minRps), scaleRate(maxRps)],
      estimateRps: candidate.estimateRps && scaleRate(candidate.estimateRps),
      pricePerHour: pricePerHour(configuration),
      bundles: undefined,
    },
    trials,
    {
      ...input.options,
      name: `${experiment.name}-${name}`,
      demandRps: demandRps && demandRps * visits,
      stageUrls,
      stageEvidence: describeStageUse(usage, cpuCores),
    },
  )
  const note = `stage ${name} of the pipeline ${experiment.name}: the SLO is that of the whole pipeline, so verify it at the entry, ${experiment.name}-${stages[0]!.name}`
  const { container } = serving
  return { ...serving, container: { ...container, notes: [note, ...(container.notes ?? [])] } }
}

/** Finds the usage of a stage, in the confirmation if the candidate is the confirmed one. */
function findStageUsage(
  name: string,
  candidate: Candidate,
  { best, confirmation }: Recommendation,
  trials: readonly FinishedTrial[],
): StageUsage | undefined {
  const confirmed = best?.trial === candidate.trial ? confirmation?.trial : undefined
  const trial = confirmed ?? trials.find(({ number }) => number === candidate.trial)
  return trial?.usage?.stages?.find(({ stage }) => stage === name)
}

/** Memory and start are measured of the whole pipeline only. */
const describeStageUse = (usage: StageUsage | undefined, cpuCores: number): Partial<Evidence> => ({
  cpuCoresBusy: usage?.busier === 'cpu' ? usage.busyShare * cpuCores : undefined,
  peakRssMiB: undefined,
  launchSeconds: undefined,
  meanMsAtCapacity: usage?.meanMs,
})

/** The files of all stages, each with the name of its stage before its own. */
export async function renderStageSpecs(
  target: SpecTargetName,
  servings: ReadonlyMap<string, Serving>,
  options: SpecOptions = {},
): Promise<SpecFile[]> {
  const files: SpecFile[] = []
  for (const [stage, serving] of servings)
    for (const { name, text } of await renderSpec(target, serving, options))
      files.push({ name: `${stage}-${name}`, text })
  return files
}

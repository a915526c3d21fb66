/** Deployment specs of a pipeline: each stage is deployed by itself, with its own replicas. */
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { toDnsLabel } from '../../reports/specs/create-serving.ts'
import { loadTarget, pipelineTargets, type SpecTargetName } from '../../reports/specs/index.ts'
import { renderPipelineSpec } from '../../reports/specs/pipeline-spec.ts'
import type { Evidence, Serving, StageCall } from '../../reports/specs/serving.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import type { SpecFile, SpecOptions } from '../../reports/specs/target.ts'
import { getDemand } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import { computeVisitRatios } from '../../trials/pipeline/pipeline.ts'
import { findStage } from '../../trials/pipeline/stage-configuration.ts'
import { parseResources } from '../../trials/resources.ts'
import type { FinishedTrial, StageUsage } from '../../trials/types.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import { type DeployOptions, resolveServing } from './serving.ts'

interface StageSpecInput {
  readonly experiment: Experiment
  readonly stages: readonly ExperimentStage[]
  readonly recommendation: Recommendation
  readonly candidate: Candidate
  readonly trials: readonly FinishedTrial[]
  /** Price of one replica of a stage. */
  readonly pricePerHour: Pricing<Configuration>
  readonly options?: DeployOptions
  /** Image and weights of each stage, by its name. */
  readonly stageOptions?: ReadonlyMap<string, Pick<DeployOptions, 'image' | 'modelUri'>>
}

/**
 * Renders the spec of all stages.
 * @throws SpecError for a target that deploys no pipelines, and for a candidate that cannot serve
 */
export async function renderStageSpecs(
  target: SpecTargetName,
  input: StageSpecInput,
  options: SpecOptions = {},
): Promise<SpecFile> {
  const { title, pipeline } = await loadTarget(target)
  if (pipeline === undefined)
    throw new SpecError(
      `${title} deploys no pipelines`,
      `choose --target ${pipelineTargets.join(' or --target ')}`,
    )
  const servings = resolveStageServings(input, (serving) => pipeline.stageUrl(serving, options))
  return renderPipelineSpec(target, toDnsLabel(input.experiment.name), servings, options)
}

/** A stage with what it needs of the pipeline. */
interface ResolvedStage {
  readonly serving: Serving
  readonly url: string
  readonly visits: number
}

/**
 * Resolves the servings of all stages, callers first. Each caller has the addresses of the stages
 * that it calls.
 */
function resolveStageServings(
  input: StageSpecInput,
  formatUrl: (serving: Serving) => string,
): readonly Serving[] {
  const resolved = new Map<string, ResolvedStage>()
  for (const stage of input.stages.toReversed()) {
    const found = resolveStage(stage, resolved, input)
    resolved.set(stage.name, { ...found, url: formatUrl(found.serving) })
  }
  const [entry, ...others] = [...resolved.values()].toReversed()
  // Each stage is rounded up to whole replicas by itself: the one with the least to spare limits
  // the pipeline.
  const verifyRps = Math.min(
    ...[...resolved.values()].map(
      ({ serving, visits }) => (serving.perReplicaRps * serving.replicas) / visits,
    ),
  )
  const { serving } = entry!
  return [
    { ...serving, stage: { ...serving.stage!, verifyRps } },
    ...others.map(({ serving }) => serving),
  ]
}

/** @param called stages that are resolved already, those that it calls among them */
function resolveStage(
  { name, calls, experiment: stage }: ExperimentStage,
  called: ReadonlyMap<string, ResolvedStage>,
  input: StageSpecInput,
): Omit<ResolvedStage, 'url'> {
  const { experiment, stages, recommendation, candidate, trials, pricePerHour } = input
  const stageConfiguration = findStage(candidate.configuration, name)
  if (stageConfiguration === undefined)
    throw new TypeError(`the configuration has no stage ${name}`)
  const { configuration, replicas } = stageConfiguration
  const { cpuCores } = parseResources(configuration, {}, stage.own.gpus)
  const usage = findStageUsage(name, candidate, recommendation, trials)
  // A rare branch may have had no visits under load.
  const visits = usage?.visits || computeVisitRatios({ stages }).get(name)!
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
      ...input.stageOptions?.get(name),
      name: `${experiment.name}-${name}`,
      demandRps: demandRps && demandRps * visits,
      stageShare: { pipelineRps: candidate.capacityRps, visits, trialReplicas: replicas },
      stageUrls: new Map([...called].map(([stage, { url }]) => [stage, url])),
      stageEvidence: describeStageUse(usage, cpuCores),
    },
  )
  const containerText = JSON.stringify(serving.container)
  const place = calls.map(({ stage, ratio }): StageCall => {
    const { url, serving } = called.get(stage)!
    return { serving: serving.name, ratio, url, isWired: containerText.includes(url) }
  })
  return { visits, serving: { ...serving, stage: { name, calls: place } } }
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

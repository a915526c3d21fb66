/**
 * Resolves the settings of a pipeline. Each stage is resolved as the experiment of a single
 * predictor, from its own keys and the shared settings. The joint space has the parameters of all
 * stages under `stage.parameter`.
 */

import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { listParameterValues } from '../../search/space/space.ts'
import type { Parameter, SearchSpace } from '../../search/types.ts'
import { getBuiltinProtocol } from '../../trials/launchers/builtin.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import { buildPipeline, type Stage } from '../../trials/pipeline/pipeline.ts'
import { replicasParameter } from '../../trials/pipeline/stage-configuration.ts'
import type { HostContext, Report } from './context.ts'
import { buildConditions, checkNotEmpty, maxParameters } from './default-space.ts'
import { resolveOrigins } from './describe-experiment.ts'
import { liftSpace, limitParameters } from './joint-space.ts'
import { createConfigProblem, type Merged } from './layers.ts'
import { buildParameter } from './parameters.ts'
import { resolveExperiment } from './resolve.ts'
import { type Settings, writeDocument } from './schema/experiment-schema.ts'
import { podKeys } from './schema/pod-schema.ts'
import type { StageEntry } from './schema/stage-schema.ts'
import type { ConfigProblem, Experiment, ExperimentStage } from './types.ts'
import type { Path } from './yaml-file.ts'

/** Keys that each stage has for itself. */
const stageKeys = ['model', 'predictor', 'space', 'pin', 'constraints'] as const
/** Keys of `kubernetes` that each stage has for itself. */
const podKeyNames = Object.keys(podKeys) as (keyof typeof podKeys)[]
/** Settings of a single predictor. */
const singleKeys = [
  'model',
  'predictor',
  'space',
  'pin',
  'variants',
  'minQuality',
  'calibration',
] as const satisfies readonly (keyof Settings)[]
/** Settings of the load, which only the entry receives. */
const entryKeys: readonly (keyof Settings)[] = ['metrics', 'expect', 'golden']

/** Resolves settings with `stages`, as `resolveExperiment` does others. */
export function resolvePipeline(
  merged: Merged,
  fallback: string,
  invalidKeys: ReadonlySet<string>,
  host: HostContext,
): { experiment?: Experiment; problems: ConfigProblem[] } {
  const { settings } = merged
  const problems: ConfigProblem[] = []
  const report: Report = (path, what, hint) => {
    problems.push(createConfigProblem(merged.findOrigin(path), fallback, path, what, hint))
  }
  const entries = settings.stages ?? {}
  checkKeys(settings, report)
  const built = buildPipeline(
    Object.entries(entries).map(([name, { calls = [], parallelCalls = false }]) => ({
      name,
      calls,
      parallelCalls,
    })),
  )
  for (const { kind, stage, call, what, hint } of built.faults) {
    // A rejected key may have held the calls that seem to be missing.
    if (kind === 'entries' && invalidKeys.has('stages')) continue
    const at = kind === 'entries' ? [] : ['calls', ...(call === undefined ? [] : [call])]
    report(['stages', stage, ...at], what, hint)
  }
  const order: readonly Stage[] = 'pipeline' in built ? built.pipeline.stages : []
  const resolved = Object.entries(entries).flatMap(([name, entry]) => {
    const isEntry = order[0]?.name === name
    const calledStages = (entry.calls ?? []).map(({ stage }) => stage)
    const stageHost = { ...host, calledStages }
    const found = resolveStage(name, entry, isEntry, merged, fallback, invalidKeys, stageHost)
    problems.push(...found.problems)
    const replicas = buildReplicas(name, entry, report)
    return found.experiment && replicas ? [{ name, experiment: found.experiment, replicas }] : []
  })
  if (problems.length > 0) return { problems }

  const byName = new Map(resolved.map((stage) => [stage.name, stage]))
  const stages = order.map(
    (stage): ExperimentStage => ({
      ...stage,
      experiment: byName.get(stage.name)!.experiment,
    }),
  )
  const checkStage = settings.backend === 'simulated' ? checkSimulatedStage : checkStartedStage
  for (const stage of stages) checkStage(stage, report)
  const space = joinSpaces(
    stages.map(({ name, experiment }) => ({
      name,
      space: experiment.space,
      replicas: byName.get(name)!.replicas,
    })),
    settings.constraints ?? [],
    report,
  )
  if (problems.length > 0) return { problems }
  const entry = stages[0]!.experiment
  const written: Settings = {
    ...settings,
    name: settings.name ?? stages.map(({ name }) => name).join('-'),
    objective: entry.settings.objective,
    objectiveMetric: entry.settings.objectiveMetric,
    load: entry.settings.load,
    metrics: entry.settings.metrics,
    stages: Object.fromEntries(
      stages.map(({ name, experiment }) => [name, writeStage(entries[name]!, experiment)]),
    ),
  }
  const document = writeDocument(written)
  const devicesUsed = (['gpu', 'emulated', 'cpu'] as const).find((devices) =>
    stages.some(({ experiment }) => experiment.devicesUsed === devices),
  )!
  return {
    experiment: {
      ...entry,
      name: written.name!,
      devicesUsed,
      space,
      pins: {},
      stages,
      own: {
        gpus: entry.own.gpus,
        architectures: stages.flatMap(({ experiment }) => experiment.own.architectures),
      },
      notices: stages.flatMap(({ name, experiment }) =>
        experiment.notices.map((notice) => `${name}: ${notice}`),
      ),
      settings: written,
      document,
      origins: resolveOrigins(document, merged, devicesUsed),
    },
    problems,
  }
}

function checkKeys(settings: Settings, report: Report): void {
  for (const key of singleKeys)
    if (settings[key] !== undefined)
      report(
        [key],
        `${key}: an experiment with stages has no ${key} of its own`,
        (stageKeys as readonly string[]).includes(key)
          ? `move it into a stage: stages: {NAME: {${key}: ...}}`
          : 'remove it: stages do not support it yet',
      )
  checkSharedCluster(settings, report)
  const names = Object.keys(settings.stages ?? {})
  if (names.length < 2)
    report(['stages'], 'stages: a pipeline needs at least two', 'use model for a single predictor')
  for (const name of names)
    if (!/^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$/.test(name))
      report(
        ['stages', name],
        `stages: '${name}' is not a valid name of a stage`,
        'use up to 30 lower-case letters, digits and -, beginning with a letter',
      )
}

/** Checks the settings of the cluster that all stages share. */
function checkSharedCluster({ backend, kubernetes }: Settings, report: Report): void {
  if (kubernetes === undefined) return
  if (backend !== 'kubernetes')
    report(
      ['kubernetes'],
      `a kubernetes section with backend ${backend}`,
      'set backend: kubernetes, or remove the section',
    )
  for (const key of podKeyNames)
    if (kubernetes[key] !== undefined)
      report(
        ['kubernetes', key],
        `kubernetes.${key}: an experiment with stages has no ${key} of its own`,
        `move it into a stage: stages: {NAME: {kubernetes: {${key}: ...}}}`,
      )
}

/**
 * Joins the settings of a cluster for a stage: its own pod, what all stages share, and those of the
 * load at the entry.
 */
function joinClusterSettings(
  { backend, kubernetes: shared }: Settings,
  own: StageEntry['kubernetes'],
  isEntry: boolean,
): Settings['kubernetes'] {
  if (backend !== 'kubernetes' || shared === undefined) return own
  const { job, through, pod: _, container: __, port: ___, ...others } = shared
  return { ...others, ...(isEntry && { job, through }), ...own }
}

/** The stage as the experiment of a single predictor. */
function resolveStage(
  name: string,
  entry: StageEntry,
  isEntry: boolean,
  merged: Merged,
  fallback: string,
  invalidKeys: ReadonlySet<string>,
  host: HostContext,
): { experiment?: Experiment; problems: ConfigProblem[] } {
  const ownKeys: readonly unknown[] = [...stageKeys, 'name']
  const isOwn = ([key, inner]: Path): boolean =>
    key === 'kubernetes'
      ? inner === undefined || (podKeyNames as readonly unknown[]).includes(inner)
      : ownKeys.includes(key)
  const locate = (path: Path): Path => (isOwn(path) ? ['stages', name, ...path] : path)
  const { settings } = merged
  const shared = Object.fromEntries(
    Object.entries(settings).filter(
      ([key]) =>
        key !== 'stages' &&
        !(singleKeys as readonly string[]).includes(key) &&
        (isEntry || !(entryKeys as readonly string[]).includes(key)),
    ),
  ) as Settings
  const { problems, experiment } = resolveExperiment(
    {
      settings: {
        ...shared,
        name: undefined,
        kubernetes: joinClusterSettings(settings, entry.kubernetes, isEntry),
        golden: isEntry ? settings.golden : { from: 'off' },
        load: isEntry ? settings.load : { ...settings.load, payload: undefined },
        ...Object.fromEntries(stageKeys.map((key) => [key, entry[key]])),
      },
      findLayer: (path) => merged.findLayer(locate(path)),
      findOrigin: (path) => merged.findOrigin(locate(path)),
    },
    fallback,
    invalidKeys.has('stages') ? new Set([...invalidKeys, ...stageKeys]) : invalidKeys,
    host,
  )
  return {
    experiment,
    problems: problems.map(({ what, ...rest }) => ({ ...rest, what: `stage ${name}: ${what}` })),
  }
}

const oneReplica = { values: [1] }

/** The parameter `replicas` of a stage; undefined if the entry is wrong. */
function buildReplicas(name: string, entry: StageEntry, report: Report): Parameter | undefined {
  const { parameter, faults } = buildParameter(replicasParameter, {
    ...(entry.replicas ?? oneReplica),
    category: 'resource',
    monotone: 'up',
  })
  const at: Path = ['stages', name, 'replicas']
  for (const fault of faults) report(at, `stage ${name}: replicas: ${fault.what}`, fault.hint)
  if (parameter === undefined) return undefined
  const values = listParameterValues(parameter)
  if (values?.every((value) => Number.isInteger(value) && Number(value) >= 1)) return parameter
  report(
    at,
    `stage ${name}: replicas must be whole numbers of at least 1`,
    'write e.g. 1..4 or [1, 2, 4]',
  )
  return undefined
}

/** Reports a stage whose time is not modelled in virtual time. */
function checkSimulatedStage({ name, experiment }: ExperimentStage, report: Report): void {
  const { predictor } = experiment
  if (predictor.kind === 'builtin' && protocolTable[getBuiltinProtocol(predictor)].streams)
    report(
      ['stages', name, 'model'],
      `stage ${name}: language models cannot be simulated as stages yet`,
      'use a model whose answer is not streamed',
    )
}

/** Reports a stage that no trial can start, or that cannot call the others. */
function checkStartedStage({ name, calls, experiment }: ExperimentStage, report: Report): void {
  const { predictor } = experiment
  if (!isStarted(predictor))
    report(
      ['stages', name, 'predictor'],
      `stage ${name}: a server that runs already cannot be a stage yet`,
      'give the command that starts it: predictor: {command: ...}',
    )
  else if (predictor.kind === 'builtin' && calls.length > 0)
    report(
      ['stages', name, 'calls'],
      `stage ${name}: the built-in predictor calls no other stage`,
      'use your own command: predictor: {command: ...}, or --backend simulated',
    )
}

interface StageSpace {
  readonly name: string
  readonly space: SearchSpace
  readonly replicas: Parameter
}

/** @param texts conditions across stages, such as 'detect.batchSize <= classify.batchSize' */
function joinSpaces(
  stages: readonly StageSpace[],
  texts: readonly string[],
  report: Report,
): SearchSpace {
  const lifted = stages.map(({ name, space, replicas }) =>
    liftSpace(name, { ...space, parameters: [replicas, ...space.parameters] }),
  )
  const parameters = lifted.flatMap((one) => one.parameters)
  limitParameters(
    parameters,
    report,
    'pin the least important ones in the predictor of their stage',
  )
  const space = {
    parameters,
    constraints: [
      ...lifted.flatMap((one) => one.constraints),
      ...buildConditions(texts, parameters, report),
    ],
  }
  if (parameters.length <= maxParameters) checkNotEmpty(space, report)
  return space
}

/** The stage with everything that was resolved, for the document. */
const writeStage = (entry: StageEntry, { settings }: Experiment): StageEntry => ({
  ...entry,
  replicas: entry.replicas ?? oneReplica,
  ...Object.fromEntries(stageKeys.map((key) => [key, settings[key]])),
  kubernetes:
    entry.kubernetes &&
    Object.fromEntries(podKeyNames.map((key) => [key, settings.kubernetes?.[key]])),
})

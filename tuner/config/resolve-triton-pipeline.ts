/**
 * Resolves an ensemble or BLS model of Triton. The server is resolved as the experiment of a single
 * predictor. Each model that it runs is a stage, whose parameters go into its config.pbtxt and are
 * named `stage.parameter` in the joint space. All stages share the resources of the server.
 */
import { existsSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { listParameterValues } from '../../search/space/space.ts'
import type { Parameter, SearchSpace } from '../../search/types.ts'
import { normaliseName, suggestNames } from '../../trials/near-names.ts'
import { resourceParameters } from '../../trials/resources.ts'
import { selectServerParameters } from '../../trials/servers/preset.ts'
import type { TritonModel } from '../../trials/servers/server-start.ts'
import { instanceKinds } from '../../trials/servers/triton.ts'
import {
  isEnsemble,
  locateField,
  type RepositoryFault,
  type RepositoryModel,
  readRepository,
  takesBatches,
} from '../../trials/servers/triton-repository.ts'
import { type HostContext, type Report, shortenPath } from './context.ts'
import { buildConditions, buildSpace, checkNotEmpty } from './default-space.ts'
import { resolveOrigins } from './describe-experiment.ts'
import { liftSpace, limitParameters } from './joint-space.ts'
import { createConfigProblem, type Merged } from './layers.ts'
import { resolveExperiment } from './resolve.ts'
import { type Settings, writeDocument } from './schema/experiment-schema.ts'
import type { ParameterEntry } from './schema/parameter-schema.ts'
import type { StageEntry } from './schema/stage-schema.ts'
import type { ConfigProblem, Experiment } from './types.ts'
import type { Path } from './yaml-file.ts'

/** Whether the settings name a Triton server with several models. */
export const isTritonPipeline = ({ predictor, model, stages }: Settings): boolean =>
  predictor?.server === 'triton' &&
  (stages !== undefined || (model?.path !== undefined && isEnsemble(model.path)))

/** Keys of a stage that has no server of its own. */
const serverKeys = ['predictor', 'calls', 'parallelCalls', 'replicas'] as const
/** Whether Triton has a setting of this name for each model. */
const isModelKnob = (name: string): boolean => selectServerParameters('triton', [name]).has(name)
const instanceKnobs = ['instances', 'instanceCount', 'instanceKind'].map(normaliseName)
const isBatchKnob = (name: string): boolean =>
  isModelKnob(name) && !instanceKnobs.includes(normaliseName(name))
/** For suggestions. */
const modelKnobs = [
  ...['batchSize', 'preferredBatchSize', 'maxDelayMs', 'queueLimit'],
  ...['instances', 'instanceKind'],
]

/** What each stage tunes that has no space of its own. */
type SharedKnobs = Pick<StageEntry, 'space' | 'pin'>

/** Resolves settings that `isTritonPipeline` accepts, as `resolveExperiment` does others. */
export function resolveTritonPipeline(
  merged: Merged,
  fallback: string,
  invalidKeys: ReadonlySet<string>,
  host: HostContext,
): { experiment?: Experiment; problems: ConfigProblem[] } {
  const { settings } = merged
  const server = resolveExperiment(
    { ...merged, settings: selectServerSettings(settings) },
    fallback,
    invalidKeys,
    host,
  )
  const problems = [...server.problems]
  const report: Report = (path, what, hint) => {
    problems.push(createConfigProblem(merged.findOrigin(path), fallback, path, what, hint))
  }
  checkBackend(settings, report)
  const { stages = {}, model: { path } = {} } = settings
  if (server.experiment === undefined || path === undefined) return { problems }
  checkStageNames(stages, report)
  const named = new Map(
    Object.entries(stages).map(([name, entry]) => [nameModel(name, entry), name]),
  )
  const models = readModels(path, named, host, (fault) => {
    const stage = named.get(fault.model ?? '')
    if (fault.where !== undefined) problems.push({ ...fault, where: fault.where })
    else report(stage === undefined ? ['model'] : ['stages', stage], fault.what, fault.hint)
  })
  if (problems.length > 0) return { problems }

  const tuned = models.map((model) =>
    resolveModel(model, named.get(model.name) ?? deriveStageName(model.name), settings, report),
  )
  const parameters = [
    ...server.experiment.space.parameters,
    ...tuned.flatMap(({ stage, space }) => liftSpace(stage, space).parameters),
  ]
  limitParameters(
    parameters,
    report,
    'write the least important ones into the config.pbtxt of their models',
  )
  const space: SearchSpace = {
    parameters,
    constraints: [
      ...server.experiment.space.constraints,
      ...tuned.flatMap(({ stage, space }) => liftSpace(stage, space).constraints),
      ...buildConditions(settings.constraints ?? [], parameters, report),
    ],
  }
  if (problems.length === 0) checkNotEmpty(space, report)
  if (problems.length > 0) return { problems }
  const { experiment } = server
  const texts = [
    ...experiment.space.constraints.map(({ text }) => text),
    ...(settings.constraints ?? []),
  ]
  const written: Settings = {
    ...experiment.settings,
    constraints: texts.length > 0 ? texts : undefined,
    stages: Object.fromEntries(tuned.flatMap(writeStage)),
  }
  const document = writeDocument(written)
  return {
    experiment: {
      ...experiment,
      space,
      predictor: addModels(experiment.predictor, tuned.map(describeModel)),
      settings: written,
      document,
      origins: resolveOrigins(document, merged, experiment.devicesUsed),
    },
    problems,
  }
}

/** A model with its settings, under the names of a single model. */
interface TunedModel {
  readonly model: RepositoryModel
  readonly stage: string
  /** As the user wrote it; undefined for a model that is only called. */
  readonly entry?: StageEntry
  readonly knobs: SharedKnobs
  readonly space: SearchSpace
  readonly written: Record<string, ParameterEntry>
}

function resolveModel(
  model: RepositoryModel,
  stage: string,
  settings: Settings,
  report: Report,
): TunedModel {
  const entry = settings.stages?.[stage]
  const isOwn = entry?.space !== undefined || entry?.pin !== undefined
  const knobs = isOwn ? entry : selectKnobs(settings, model)
  const locate = (at: Path): Path =>
    isOwn || at[0] === 'constraints' ? ['stages', stage, ...at] : at
  const reportKnob: Report = (at, what, hint) => report(locate(at), `stage ${stage}: ${what}`, hint)
  if (isOwn) checkKnobs(model, knobs, reportKnob)
  const { space, written } = buildSpace(
    {
      space: { ...declarePins(knobs.pin), ...knobs.space },
      pin: knobs.pin,
      constraints: entry?.constraints,
    },
    { ...stageSetting, backend: settings.backend },
    reportKnob,
  )
  // Whatever category a name would have elsewhere.
  const parameters = space.parameters.map((one) => ({ ...one, category: 'server' as const }))
  return { model, stage, entry, knobs, space: { ...space, parameters }, written }
}

/** A pin declares its parameter, since all names are known to be settings of Triton. */
const declarePins = (pin: StageEntry['pin'] = {}): Record<string, ParameterEntry> =>
  Object.fromEntries(Object.entries(pin).map(([name, value]) => [name, { values: [value] }]))

/** The stage with everything that was resolved, for the document. */
function writeStage({ model, stage, entry, knobs, written }: TunedModel): [string, StageEntry][] {
  // An ensemble has no settings, but a BLS model may call it.
  if (model.steps !== undefined && entry === undefined) return []
  return [
    [
      stage,
      {
        ...(model.name !== stage && { model: { name: model.name } }),
        ...(model.steps === undefined && { space: written, pin: knobs.pin }),
        constraints: entry?.constraints,
      },
    ],
  ]
}

/** The settings of the server: without those of its models. */
const selectServerSettings = (settings: Settings): Settings => ({
  ...settings,
  stages: undefined,
  constraints: undefined,
  space: omitKnobs(settings.space),
  pin: omitKnobs(settings.pin),
})

const omitKnobs = <T>(entries: Readonly<Record<string, T>> | undefined) =>
  entries && Object.fromEntries(Object.entries(entries).filter(([name]) => !isModelKnob(name)))

/** What the settings of the server tune of each model that can take it. */
function selectKnobs({ space, pin }: Settings, model: RepositoryModel): SharedKnobs {
  const select = <T>(entries: Readonly<Record<string, T>> = {}) =>
    Object.fromEntries(
      Object.entries(entries).filter(
        ([name]) => isModelKnob(name) && findKnobFault(model, name) === undefined,
      ),
    )
  return { space: select(space), pin: select(pin) }
}

/** Values are read as those of a user's own server; nothing is added to them. */
const stageSetting = {
  devices: 'cpu',
  predictor: 'command',
  cpuCores: Number.POSITIVE_INFINITY,
  gpus: [],
  isStored: true,
} as const

function checkBackend({ backend }: Settings, report: Report): void {
  if (backend !== 'local')
    report(
      ['backend'],
      `the models of one Triton server are not tuned on the backend ${backend} yet`,
      'use --backend local',
    )
}

/** The stage's name is the model's, unless it names another. */
const nameModel = (stage: string, { model }: StageEntry): string => model?.name ?? stage

/** A name that conditions can contain: `resnet50-v1.5` is `resnet50-v1_5`. */
const deriveStageName = (model: string): string =>
  model.replace(/[^\w-]/g, '_').replace(/^(?![A-Za-z_])/, '_')

function checkStageNames(stages: Readonly<Record<string, StageEntry>>, report: Report): void {
  for (const [name, entry] of Object.entries(stages)) {
    if (!/^[A-Za-z_][\w-]*$/.test(name))
      report(
        ['stages', name],
        `stages: '${name}' is not a valid name of a stage`,
        `use letters, digits, _ and -: {${deriveStageName(name)}: {model: ${name}, ...}}`,
      )
    const first = Object.keys(stages).find(
      (one) => nameModel(one, stages[one]!) === nameModel(name, entry),
    )
    if (first !== name)
      report(
        ['stages', name],
        `stage ${name}: stage ${first} is the model '${nameModel(name, entry)}' already`,
        'remove one of them',
      )
    for (const key of serverKeys)
      if (entry[key] !== undefined)
        report(
          ['stages', name, key],
          `stage ${name}: ${key}: a model of a Triton server has no ${key} of its own`,
          'remove it: the stages share one server, and call each other there',
        )
  }
}

/** @param onFault receives the faults of the model repository */
function readModels(
  path: string,
  named: ReadonlyMap<string, string>,
  host: HostContext,
  onFault: (fault: RepositoryFault) => void,
): readonly RepositoryModel[] {
  const show = (file: string) => shortenPath(file, host)
  // Of a stored experiment, the files may be gone: only its stages are known then.
  if (host.isReadOnly && !existsSync(path))
    return [...named.keys()].map((name) => ({ name, file: name, config: {} }))
  const { models, faults } = readRepository(dirname(path), basename(path), [...named.keys()], show)
  for (const fault of faults) onFault(fault)
  return models
}

function checkKnobs(model: RepositoryModel, { space, pin }: SharedKnobs, report: Report): void {
  for (const [section, entries] of Object.entries({ space, pin }))
    for (const name of Object.keys(entries ?? {})) {
      const fault = (resourceParameters as readonly string[]).includes(name)
        ? {
            what: 'the models of a server share its resources',
            hint:
              name === 'gpu'
                ? 'move it to the space of the experiment; instanceKind: KIND_CPU runs a model on CPU alone'
                : 'move it to the space of the experiment',
          }
        : isModelKnob(name)
          ? findKnobFault(model, name)
          : {
              what: 'Triton has no such setting of a model',
              hint: suggestNames(name, modelKnobs),
            }
      if (fault !== undefined) report([section, name], `${name}: ${fault.what}`, fault.hint)
    }
  const kinds = [
    ...(space?.instanceKind?.values ?? []),
    ...(pin?.instanceKind ? [pin.instanceKind] : []),
  ]
  for (const kind of kinds)
    if (!(instanceKinds as readonly unknown[]).includes(kind))
      report(
        [space?.instanceKind ? 'space' : 'pin', 'instanceKind'],
        `instanceKind: '${kind}' is not a kind of instances`,
        `use ${instanceKinds.join(' or ')}`,
      )
}

/** Why a model cannot take a setting; undefined if it can. */
function findKnobFault(
  model: RepositoryModel,
  name: string,
): { readonly what: string; readonly hint: string } | undefined {
  if (model.steps !== undefined)
    return {
      what: `${model.name} is an ensemble (${locateField(model, 'ensemble_scheduling')}), which has neither batches nor instances`,
      hint: `tune the models that it calls: ${model.steps.join(', ')}`,
    }
  if (!isBatchKnob(name)) return undefined
  if (!takesBatches(model))
    return {
      what: `${model.name} takes no batches: its inputs are written without max_batch_size (${locateField(model, 'input')})`,
      hint: 'set max_batch_size there if the model has a batch dimension',
    }
  if (model.config.sequence_batching !== undefined)
    return {
      what: `${model.name} batches sequences (${locateField(model, 'sequence_batching')}), which excludes dynamic batching`,
      hint: 'tune its instances alone',
    }
  return undefined
}

function describeModel({ model: { name, text, steps }, stage, space }: TunedModel): TritonModel {
  const minBatchSize = findMinBatchSize(space.parameters)
  return {
    name,
    ...(steps === undefined ? { stage } : { steps }),
    ...(text !== undefined && { config: text }),
    ...(minBatchSize !== undefined && { minBatchSize }),
  }
}

const findMinBatchSize = (parameters: readonly Parameter[]): number | undefined => {
  const batch = parameters.find(({ name }) => name === 'batchSize' || name === 'maxBatchSize')
  if (batch === undefined) return undefined
  const values = listParameterValues(batch)?.map(Number)
  return values === undefined ? (batch as { min: number }).min : Math.min(...values)
}

function addModels(
  predictor: Experiment['predictor'],
  models: readonly TritonModel[],
): Experiment['predictor'] {
  if (predictor.kind !== 'command' || predictor.server === undefined)
    throw new TypeError('a Triton pipeline is started by a server preset')
  return { ...predictor, server: { ...predictor.server, models } }
}

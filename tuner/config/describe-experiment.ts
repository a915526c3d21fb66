/** Every effective value of an experiment and where it came from, as `tune config` shows them. */

import { nameStageParameter, replicasParameter } from '../../trials/pipeline/stage-configuration.ts'
import { describeDomain } from './default-space.ts'
import { isUserPredictor, listContainers } from './kubernetes-settings.ts'
import { getValueAt, joinPath, type Merged, showOrigin } from './layers.ts'
import type { ConfigRow, Experiment, ExperimentDocument, Origin } from './types.ts'
import type { Path } from './yaml-file.ts'

/** Lists the rows of `tune config`: parameters, and every setting that is no section. */
function listLeaves(document: ExperimentDocument): [Path, unknown][] {
  const parents = new Set([
    'model',
    'slo',
    'space',
    'pin',
    'predictor',
    'kubernetes',
    'load',
    'expect',
    'golden',
    'budget',
    'stop',
  ])
  const list = (of: object, at: Path): [Path, unknown][] =>
    Object.entries(of).flatMap(([key, value]): [Path, unknown][] => {
      const path = [...at, key]
      if (typeof value !== 'object' || value === null) return [[path, value]]
      if (key === 'stages' && at.length === 0)
        return Object.entries(value).flatMap(([name, stage]) => list(stage as object, [key, name]))
      return parents.has(key)
        ? Object.entries(value).map(([inner, leaf]): [Path, unknown] => [[...path, inner], leaf])
        : [[path, value]]
    })
  return list(document, [])
}

/** The path in the settings of one predictor, and the stage that it belongs to. */
const splitStage = (path: Path): { readonly stage?: string; readonly own: Path } =>
  path[0] === 'stages' ? { stage: String(path[1]), own: path.slice(2) } : { own: path }

/**
 * Resolves the origin of each leaf of the document. A value that no layer set is a default; a
 * derived default names what it follows from.
 */
export function resolveOrigins(
  document: ExperimentDocument,
  merged: Merged,
  devicesUsed: Experiment['devicesUsed'],
): Record<string, Origin> {
  const { settings } = merged
  const reasons: Record<string, string | undefined> = {
    name: 'the model',
    'model.architecture': 'the name',
    objective: settings.demand === undefined ? 'no demand' : 'there is a demand',
    'load.timeout': '10 times the SLO, at least 2s',
    'predictor.engine': devicesUsed === 'emulated' ? 'no GPU is used' : undefined,
    'space.cpuCores': document.backend === 'local' ? 'cores of this machine' : undefined,
  }
  return Object.fromEntries(
    listLeaves(document).map(([path]): [string, Origin] => {
      const { stage, own } = splitStage(path)
      const [section, name] = own
      const before: Path = stage === undefined ? [] : ['stages', stage]
      // The layer of a pipeline owns all of its stages, with what it leaves to the defaults.
      const find = (wanted: Path) =>
        stage === undefined || getValueAt(settings, wanted) !== undefined
          ? merged.findOrigin(wanted)
          : undefined
      const pinned = section === 'space' ? find([...before, 'pin', name!]) : undefined
      return [
        joinPath(path),
        pinned ?? find(path) ?? { kind: 'default', reason: reasons[joinPath(own)] },
      ]
    }),
  )
}

/**
 * Describes every effective value and where it came from, in the order of the experiment file: the
 * rows of `tune config`.
 */
export function describeExperiment(experiment: Experiment): ConfigRow[] {
  return listLeaves(experiment.document).map(([path, value]) => {
    const name = joinPath(path)
    return {
      path: name,
      value: describeLeaf(experiment, path, value),
      origin: showOrigin(experiment.origins[name] ?? { kind: 'default' }),
    }
  })
}

function describeLeaf(experiment: Experiment, path: Path, value: unknown): string {
  const { stage, own } = splitStage(path)
  if (own[0] === 'space' || own[0] === replicasParameter) {
    const name = String(own.at(-1))
    return describeParameter(
      experiment,
      stage === undefined ? name : nameStageParameter(stage, name),
    )
  }
  switch (joinPath(own)) {
    case 'kubernetes.pod':
    case 'kubernetes.job':
      return describePod(value)
    case 'predictor.command':
      return (value as string[]).map((word) => (/\s/.test(word) ? `'${word}'` : word)).join(' ')
    default:
      return describeValue(value)
  }
}

function describeParameter({ space }: Experiment, name: string): string {
  const parameter = space.parameters.find((candidate) => candidate.name === name)!
  const scale = parameter.kind !== 'categorical' && parameter.scale === 'log' ? ', log' : ''
  const when = parameter.when ? `, when ${parameter.when.text}` : ''
  return `${describeDomain(parameter)} (${parameter.kind}, ${parameter.category}${scale}${when})`
}

/** A pod template is too long for a row, so its containers and their images are listed. */
function describePod(pod: unknown): string {
  const containers = listContainers(pod as Record<string, unknown>) as {
    name?: unknown
    image?: unknown
  }[]
  return isUserPredictor(pod as Record<string, unknown>)
    ? containers.map(({ name, image }) => `${name} (${image ?? 'no image'})`).join(', ')
    : JSON.stringify(pod)
}

function describeValue(value: unknown): string {
  if (Array.isArray(value)) return value.map((item) => describeValue(item)).join(', ')
  if (typeof value === 'object' && value !== null)
    return Object.entries(value)
      .map(([key, inner]) => `${key}=${describeValue(inner)}`)
      .join(' ')
  return String(value)
}

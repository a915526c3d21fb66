/** Every effective value of an experiment and where it came from, as `tune config` shows them. */

import { describeDomain } from './default-space.ts'
import { joinPath, type Merged, showOrigin } from './layers.ts'
import { isOwnPredictor, listContainers } from './settings/kubernetes-settings.ts'
import type { ConfigRow, Experiment, ExperimentDocument, Origin } from './types.ts'
import type { Path } from './yaml-file.ts'

/** The rows of `tune config`: parameters, and every setting that is no section. */
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
  return Object.entries(document).flatMap(([key, value]): [Path, unknown][] =>
    parents.has(key) && typeof value === 'object' && value !== null
      ? Object.entries(value).map(([inner, leaf]): [Path, unknown] => [[key, inner], leaf])
      : [[[key], value]],
  )
}

/**
 * The origin of each leaf of the document. A value that no layer set is a default; a derived
 * default names what it follows from.
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
      const [section, name] = path
      const pinned = section === 'space' ? merged.findOrigin(['pin', name!]) : undefined
      return [
        joinPath(path),
        pinned ?? merged.findOrigin(path) ?? { kind: 'default', reason: reasons[joinPath(path)] },
      ]
    }),
  )
}

/**
 * Every effective value and where it came from, in the order of the experiment file: the rows of
 * `tune config`.
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
  if (path[0] === 'space') return describeParameter(experiment, String(path[1]))
  switch (joinPath(path)) {
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
  return isOwnPredictor(pod as Record<string, unknown>)
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

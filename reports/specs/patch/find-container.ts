/** The container of a manifest file that serves the model. */

import type { DeployedServer } from '../../figures.ts'
import { recogniseCommandServer } from '../../figures.ts'
import { imagePlaceholder } from '../placeholders.ts'
import type { Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import {
  kserveFields,
  listCommandWords,
  parseImageName,
  recogniseServer,
} from './container-server.ts'
import type { ManifestObject } from './manifest-objects.ts'
import {
  getValueAt,
  isYamlMap,
  listAt,
  listEntriesAt,
  type Path,
  type YamlValue,
} from './yaml-values.ts'

export interface ServerContainer {
  readonly object: ManifestObject
  /** Path of the pod's spec in the object, and of the container. */
  readonly podPath: Path
  readonly path: Path
  readonly value: YamlValue
  readonly name: string
  /** 'Deployment/bert/server': what --container takes. */
  readonly label: string
  /** Server that it starts; undefined if unknown. */
  readonly server: DeployedServer | undefined
  /** Why it was chosen, in words. */
  readonly reason: string
}

interface Candidate extends Omit<ServerContainer, 'reason' | 'label'> {
  /** Whether it is a sidecar, or a part of an InferenceService other than its predictor. */
  readonly isCompanion: boolean
}

/**
 * @param requested name of a container, optionally with kind and object
 * @throws SpecError if the file has no container, or several and none is chosen
 */
export function findContainer(
  objects: readonly ManifestObject[],
  serving: Serving,
  { requested, file }: { readonly requested?: string; readonly file: string },
): ServerContainer {
  const candidates = addLabels(objects.flatMap(listContainers))
  if (candidates.length === 0) {
    const kinds = objects.map(({ kind }) => kind)
    throw new SpecError(
      `${file} contains no workload (${kinds.join(', ') || 'no Kubernetes objects'})`,
      'give a file with a Deployment, a StatefulSet, an InferenceService or another object that has containers',
    )
  }
  if (requested !== undefined) {
    const matching = candidates.filter((candidate) => listNames(candidate).includes(requested))
    if (matching.length === 1) return { ...matching[0]!, reason: 'by --container' }
    if (matching.length === 0)
      throw new SpecError(
        `${file} has no container ${requested}: it has ${listLabels(candidates)}`,
        'name one of them with --container',
      )
    throw createAmbiguityError(file, matching)
  }
  const servers = candidates.filter(({ isCompanion }) => !isCompanion)
  const eligible = servers.length > 0 ? servers : candidates
  if (eligible.length === 1) return { ...eligible[0]!, reason: 'the only one' }
  for (const [reason, isServer] of listContainerEvidence(serving)) {
    const serverContainers = eligible.filter(isServer)
    if (serverContainers.length === 1) return { ...serverContainers[0]!, reason }
    if (serverContainers.length > 1) throw createAmbiguityError(file, serverContainers)
  }
  throw createAmbiguityError(file, eligible)
}

const listLabels = (candidates: readonly { readonly label: string }[]): string =>
  candidates.map(({ label }) => label).join(', ')

function createAmbiguityError(
  file: string,
  candidates: readonly { readonly label: string }[],
): SpecError {
  return new SpecError(
    `${file} has several containers that may be the server: ${listLabels(candidates)}`,
    `name the one to tune with --container, such as --container ${candidates[0]!.label}`,
  )
}

type Evidence = readonly [reason: string, isServer: (candidate: Candidate) => boolean]

/** Evidence for the server's container, most reliable first. */
function listContainerEvidence(serving: Serving): readonly Evidence[] {
  const { container, deployed, evidence } = serving
  const measured = recogniseCommandServer(evidence.measured.command ?? []) ?? deployed.server
  const program = findOwnProgram(evidence.measured.command ?? [])
  const flags = (container.tunedArgs ?? [])
    .filter((word) => /^--?[a-z]/i.test(word))
    .map((word) => word.split('=')[0]!)
  return [
    [
      'by its image and command',
      ({ value, server, name }) =>
        name === 'kserve-container' ||
        server === measured ||
        hasImage(value, container.image) ||
        (program !== undefined &&
          listCommandWords(value).some((word) => word.split('/').at(-1) === program)),
    ],
    [
      'by its arguments and variables',
      ({ value }) =>
        listCommandWords(value).some((word) => flags.includes(word.split('=')[0]!)) ||
        listAt(value, ['env']).some((one) =>
          container.tunedEnv?.includes(String(getValueAt(one, ['name']))),
        ),
    ],
    ['as the only known model server', ({ server }) => server !== undefined],
    [
      'by its port',
      ({ value }) =>
        listAt(value, ['ports']).some(
          (one) => getValueAt(one, ['containerPort']) === container.port,
        ),
    ],
  ]
}

const hasImage = (value: YamlValue, image: string): boolean => {
  const ownImage = getValueAt(value, ['image'])
  return (
    image !== imagePlaceholder &&
    typeof ownImage === 'string' &&
    parseImageName(ownImage) === parseImageName(image)
  )
}

/** Program of the measured command, or the script of an interpreter. */
function findOwnProgram(command: readonly string[]): string | undefined {
  const names = command.map((word) => word.split('/').at(-1)!)
  return /^(python[\d.]*|node|java|ruby|bash|sh|env|uv|poetry)$/.test(names[0] ?? '')
    ? names.slice(1).find((name) => !name.startsWith('-'))
    : names[0]
}

/** Kinds whose blocks look like pods but are patterns or schemas. */
const patternKinds: ReadonlySet<string> = new Set([
  'Policy',
  'ClusterPolicy',
  'CustomResourceDefinition',
])

/** Lists the containers of every pod in an object, and KServe's predictors that name none. */
function listContainers(object: ManifestObject): Candidate[] {
  if (patternKinds.has(object.kind)) return []
  return listPods(object.value, []).flatMap((podPath) => {
    const isBeside =
      object.kind === 'InferenceService' && (podPath[1] !== 'predictor' || podPath.length > 2)
    const fields =
      object.kind === 'InferenceService' && !isBeside
        ? listEntriesAt(object.value, podPath).filter(
            ([field, value]) => Object.hasOwn(kserveFields, field) && isYamlMap(value),
          )
        : []
    const inFields = fields.map(
      ([field, value]): Candidate => ({
        object,
        podPath,
        path: [...podPath, field],
        value,
        name: field,
        server: recogniseServer(value, field),
        isCompanion: false,
      }),
    )
    const inList = listAt(object.value, [...podPath, 'containers']).flatMap(
      (value, i): Candidate[] =>
        isYamlMap(value)
          ? [
              {
                object,
                podPath,
                path: [...podPath, 'containers', i],
                value,
                name: resolveContainerName(value),
                server: recogniseServer(value),
                // If a field such as `triton` is the predictor, all containers are sidecars.
                isCompanion: isBeside || fields.length > 0,
              },
            ]
          : [],
    )
    return [...inFields, ...inList]
  })
}

/** Name of a container; the name of its image where it has none, as with Knative. */
const resolveContainerName = (container: YamlValue): string =>
  String(
    getValueAt(container, ['name']) ?? parseImageName(String(getValueAt(container, ['image']))),
  )

/** Paths of every block that has containers, or is KServe's predictor. */
function listPods(value: YamlValue, path: Path): Path[] {
  if (Array.isArray(value))
    return (value as YamlValue[]).flatMap((one, i) => listPods(one, [...path, i]))
  if (!isYamlMap(value)) return []
  const isPod =
    Array.isArray(value.containers) ||
    (path.at(-1) === 'predictor' &&
      Object.keys(value).some((key) => Object.hasOwn(kserveFields, key)))
  const inner = Object.entries(value)
    .filter(([key]) => key !== 'containers' && key !== 'status' && key !== 'metadata')
    .flatMap(([key, one]) => listPods(one, [...path, key]))
  return isPod ? [path, ...inner] : inner
}

/** Unique labels; duplicates get their line number. */
function addLabels<T extends Candidate>(candidates: readonly T[]): (T & { label: string })[] {
  const plainLabels = candidates.map(({ object, name }) => `${object.kind}/${object.name}/${name}`)
  return candidates.map((candidate, i) => {
    const label = plainLabels[i]!
    const isUnique = plainLabels.filter((other) => other === label).length === 1
    return {
      ...candidate,
      label: isUnique ? label : `${label}@${candidate.object.lineOf(candidate.path)}`,
    }
  })
}

/** Names that --container accepts. */
function listNames({ object, name, label, isCompanion }: Candidate & { readonly label: string }) {
  const isPredictor = object.kind === 'InferenceService' && !isCompanion
  return [
    label,
    ...[name, ...(isPredictor ? ['kserve-container'] : [])].flatMap((one) => [
      one,
      `${object.name}/${one}`,
      `${object.kind}/${object.name}/${one}`,
    ]),
  ]
}

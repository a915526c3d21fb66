/** Where weights are stored, and how a pod or a Compose project gets them. */
import { parseHubName } from '../../trials/servers/language-servers.ts'
import { isLanguageServer } from '../../trials/servers/server-kinds.ts'
import type { DeployedServer } from '../figures.ts'
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'

/** Folder of the weights once the server starts. */
export const modelFolder = '/mnt/models'

type ModelStorage =
  /** A folder or file that the image, or the machine, holds already. */
  | { readonly kind: 'path'; readonly path: string }
  /** A PersistentVolumeClaim. */
  | {
      readonly kind: 'claim'
      readonly claim: string
      readonly subPath?: string
      readonly path: string
    }
  /** A volume that a CSI driver mounts in the pod, such as a bucket. */
  | {
      readonly kind: 'csi'
      readonly driver: string
      readonly attributes: Readonly<Record<string, string>>
      readonly subPath?: string
      readonly path: string
    }
  /** The files of a container image, without running it. */
  | { readonly kind: 'image'; readonly reference: string; readonly path: string }
  /** Downloaded before the server starts. */
  | { readonly kind: 'fetched'; readonly uri: string; readonly path: string }

/**
 * Image of KServe that downloads weights: it knows the object stores, and takes credentials from
 * the environment or the pod's service account.
 */
const fetchImage = 'kserve/storage-initializer:v0.15.2'
/** Schemes that the image downloads from. */
const fetchedSchemes = [
  's3',
  'gs',
  'hf',
  'https',
  'http',
  'hdfs',
  'webhdfs',
  'abfs',
  'azure',
] as const

/**
 * 's3://bucket/model' → fetched, '/models/bert' → path, 'pvc://claim/bert' → claim.
 * @throws SpecError for an address of unknown kind
 */
function parseModelStorage(uri: string): ModelStorage {
  const [, scheme, location = ''] = /^([a-z0-9]+):\/\/(\S+)$/.exec(uri) ?? []
  if (/^\/\S*$/.test(uri)) return { kind: 'path', path: uri }
  if (scheme === 'file' && location.startsWith('/')) return { kind: 'path', path: location }
  if (scheme === 'pvc') {
    const [claim = '', ...folders] = location.split('/').filter((part) => part !== '')
    const subPath = folders.length > 0 ? { subPath: folders.join('/') } : {}
    if (/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(claim) && !folders.includes('..'))
      return { kind: 'claim', claim, ...subPath, path: modelFolder }
  }
  if (scheme === 'csi') {
    const csi = createCsiVolume(location)
    if (csi) return csi
  }
  if (scheme === 'oci' && /^[a-z0-9][\w.\-/:@]*$/.test(location))
    return { kind: 'image', reference: location, path: modelFolder }
  if (fetchedSchemes.some((known) => known === scheme))
    return { kind: 'fetched', uri, path: modelFolder }
  throw new SpecError(
    `the weights cannot be fetched from ${JSON.stringify(uri)}`,
    `give --model-uri as ${fetchedSchemes.map((known) => `${known}://`).join(', ')}, pvc://CLAIM/FOLDER, csi://DRIVER/FOLDER?ATTRIBUTE=VALUE, oci://IMAGE, or an absolute path in the image`,
  )
}

/**
 * 'gcsfuse.csi.storage.gke.io/bert?bucketName=models': driver, folder in the volume, attributes of
 * the volume.
 */
function createCsiVolume(location: string): ModelStorage | undefined {
  const [, driver, folder = '', query = ''] =
    /^([a-z0-9][a-z0-9.-]*[a-z0-9])(?:\/([^?]*))?(?:\?(.*))?$/.exec(location) ?? []
  const folders = folder.split('/').filter((part) => part !== '')
  if (driver === undefined || folders.includes('..')) return undefined
  const subPath = folders.length > 0 ? { subPath: folders.join('/') } : {}
  return {
    kind: 'csi',
    driver,
    attributes: Object.fromEntries(new URLSearchParams(query)),
    ...subPath,
    path: modelFolder,
  }
}

/** Path or name of the weights for a running server; an address of unknown kind stays as it is. */
export function resolveWeightsPath(uri: string, server: DeployedServer): string {
  const hub = isLanguageServer(server) ? parseHubName(uri) : undefined
  if (hub !== undefined) return hub
  try {
    return parseModelStorage(uri).path
  } catch (error) {
    if (error instanceof SpecError) return uri
    throw error
  }
}

/**
 * For a script on a machine, which neither mounts nor fetches weights: the path or address that the
 * server reads.
 * @throws SpecError for storage that only a pod can mount
 */
export function resolveScriptPath(uri: string): string {
  if (/^(pvc|csi|oci):/.test(uri))
    throw new SpecError(
      `a script cannot mount ${uri}`,
      'give --model-uri as a path or as a store that the server reads itself, or choose --target kubernetes',
    )
  return uri.startsWith('file:///') ? uri.slice('file://'.length) : uri
}

/** Name of the volume with the weights. */
const volumeName = 'model'

export interface PodStorage {
  readonly initContainers: readonly Manifest[]
  readonly volumes: readonly Manifest[]
  readonly volumeMounts: readonly Manifest[]
  /** Annotations of the pod. */
  readonly annotations: Readonly<Record<string, string>>
  readonly notes: readonly string[]
}

const noStorage: PodStorage = {
  initContainers: [],
  volumes: [],
  volumeMounts: [],
  annotations: {},
  notes: [],
}

/** Drivers that mount through a sidecar, which an annotation of the pod asks for. */
const sidecars: Readonly<Record<string, string>> = {
  'gcsfuse.csi.storage.gke.io': 'gke-gcsfuse/volumes',
}

/**
 * Resolves where the weights are; undefined if no weights were named, or if the server fetches
 * them itself.
 * @throws SpecError for an address of unknown kind
 */
export const resolveStorage = ({
  modelUri,
  deployed,
}: Pick<Serving, 'modelUri' | 'deployed'>): ModelStorage | undefined =>
  modelUri === undefined ||
  (isLanguageServer(deployed.server) && parseHubName(modelUri) !== undefined)
    ? undefined
    : parseModelStorage(modelUri)

/** The weights in a pod: its volumes, their mounts in the server, and what runs before it. */
export function buildPodStorage(storage: ModelStorage | undefined): PodStorage {
  switch (storage?.kind) {
    case undefined:
      return noStorage
    case 'path':
      return {
        ...noStorage,
        notes: [`the image must contain the weights in ${storage.path}`],
      }
    case 'claim':
      return {
        ...noStorage,
        volumes: [
          { name: volumeName, persistentVolumeClaim: { claimName: storage.claim, readOnly: true } },
        ],
        volumeMounts: [
          { name: volumeName, mountPath: modelFolder, subPath: storage.subPath, readOnly: true },
        ],
      }
    case 'csi': {
      const { driver, attributes, subPath } = storage
      const sidecar = sidecars[driver]
      return {
        ...noStorage,
        volumes: [
          { name: volumeName, csi: { driver, readOnly: true, volumeAttributes: attributes } },
        ],
        volumeMounts: [{ name: volumeName, mountPath: modelFolder, subPath, readOnly: true }],
        annotations: sidecar === undefined ? {} : { [sidecar]: 'true' },
        notes: [
          `needs the CSI driver ${driver} with ephemeral volumes; the pod's service account may need read access to the data`,
        ],
      }
    }
    case 'image':
      return {
        ...noStorage,
        volumes: [
          { name: volumeName, image: { reference: storage.reference, pullPolicy: 'IfNotPresent' } },
        ],
        volumeMounts: [{ name: volumeName, mountPath: modelFolder, readOnly: true }],
        notes: [
          'needs image volumes: Kubernetes 1.35, or 1.31 and later with feature gate ImageVolume and a runtime that supports them',
        ],
      }
    case 'fetched':
      return {
        ...noStorage,
        initContainers: [
          {
            name: 'fetch-model',
            image: fetchImage,
            args: [storage.uri, modelFolder],
            // KServe's own defaults for this container.
            resources: {
              requests: { cpu: '100m', memory: '100Mi' },
              limits: { cpu: '1', memory: '1Gi' },
            },
            volumeMounts: [{ name: volumeName, mountPath: modelFolder }],
          },
        ],
        volumes: [{ name: volumeName, emptyDir: {} }],
        volumeMounts: [{ name: volumeName, mountPath: modelFolder, readOnly: true }],
        notes: [
          `fetch-model downloads ${storage.uri}: unless that is public, it needs credentials from the pod's service account or its environment`,
        ],
      }
  }
}

/**
 * Parts of a Compose project: the service that fetches, and the server's volumes.
 * @param name of the server's service
 * @throws SpecError for storage that only a pod can mount
 */
export function buildComposeStorage(
  storage: ModelStorage | undefined,
  name: string,
): {
  readonly services: Manifest
  readonly dependsOn: Manifest
  readonly mounts: readonly Manifest[]
  readonly volumes: Manifest
} {
  const noParts = { services: {}, dependsOn: {}, mounts: [], volumes: {} }
  switch (storage?.kind) {
    case undefined:
      return noParts
    case 'path':
      return {
        ...noParts,
        mounts: [{ type: 'bind', source: storage.path, target: storage.path, read_only: true }],
      }
    case 'claim':
    case 'csi':
    case 'image':
      throw new SpecError(
        {
          claim: 'Compose has no PersistentVolumeClaims',
          csi: 'Compose has no CSI drivers',
          image: 'Compose cannot mount images',
        }[storage.kind],
        'give --model-uri as a path of this machine or an address to download from',
      )
    case 'fetched': {
      const service = `${name}-fetch-model`
      const source = `${name}-${volumeName}`
      return {
        services: {
          [service]: {
            image: fetchImage,
            command: [storage.uri, modelFolder],
            volumes: [{ type: 'volume', source, target: modelFolder }],
          },
        },
        dependsOn: { [service]: { condition: 'service_completed_successfully' } },
        mounts: [{ type: 'volume', source, target: modelFolder, read_only: true }],
        volumes: { [source]: {} },
      }
    }
  }
}

/**
 * Returns a model URI that a platform which fetches weights itself supports.
 * @throws SpecError for a path, and for storage that only a pod can mount
 */
export function checkPlatformUri(uri: string, platform: 'KServe' | 'Seldon'): string {
  const storage = parseModelStorage(uri)
  if (storage.kind === 'csi' || (storage.kind === 'image' && platform !== 'KServe'))
    throw new SpecError(
      `${platform} fetches the model itself and does not support ${storage.kind === 'csi' ? 'csi' : 'oci'}://`,
      'give --model-uri as pvc://CLAIM/FOLDER, s3://, gs:// or https://, or choose --target kubernetes',
    )
  if (storage.kind === 'path')
    throw new SpecError(
      `${platform} fetches the model itself and cannot use a path, such as ${uri}`,
      'give --model-uri as pvc://CLAIM/FOLDER, s3://, gs:// or https://',
    )
  return uri
}

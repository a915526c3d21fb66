/** Resolves `kubernetes`: the pod template, and the container to tune. */
import type { SearchSpace } from '../../search/types.ts'
import {
  builtinContainer,
  loadContainer,
} from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import {
  findPlaceholders,
  formatStagePlaceholder,
  isStagePlaceholder,
} from '../../trials/launchers/placeholders.ts'
import type { Context } from './context.ts'
import { findServerUrl } from './server-urls.ts'
import type { KubernetesSpec } from './types.ts'

interface Container {
  readonly name?: unknown
  readonly image?: unknown
  readonly command?: unknown
  readonly args?: unknown
  readonly env?: unknown
  readonly ports?: readonly { readonly containerPort?: unknown }[]
}

export function resolveKubernetes({ entries, report }: Context): KubernetesSpec | undefined {
  if (entries.kubernetes === undefined) return undefined
  const { scaleUpTimeout: scaleUpTimeoutMs, ...rest } = entries.kubernetes
  const settings = { ...rest, ...(scaleUpTimeoutMs !== undefined && { scaleUpTimeoutMs }) }
  if (entries.backend !== 'kubernetes')
    report(
      ['kubernetes'],
      `a kubernetes section with backend ${entries.backend}`,
      'set backend: kubernetes, or remove the section',
    )
  checkLoadTarget(settings, report)
  if (settings.job !== undefined) checkOverlay(settings.job, 'job', loadContainer, report)
  if (settings.pod === undefined) return settings
  if (!isUserPredictor(settings.pod)) {
    checkOverlay(settings.pod, 'pod', builtinContainer, report)
    return settings
  }
  if (
    entries.predictor?.command !== undefined ||
    entries.predictor?.engine !== undefined ||
    findServerUrl(entries.predictor) !== undefined
  )
    report(
      ['predictor'],
      'both a predictor and a pod template',
      'the pod is the predictor: `predictor` may contain only protocol, path, envNames and argFormat',
    )
  const containers = listContainers(settings.pod)
  const names = containers.map((container) => String(container.name))
  const container = settings.container ?? (names.length === 1 ? names[0] : undefined)
  if (container === undefined)
    report(
      ['kubernetes', 'pod'],
      `kubernetes.pod has several containers: ${names.join(', ')}`,
      'choose the one to tune with container: NAME',
    )
  else if (!names.includes(container))
    report(
      ['kubernetes', 'container'],
      `kubernetes.container: the pod has no container ${container}`,
      `it has ${names.join(', ')}`,
    )
  const port =
    settings.port ?? containers.find(({ name }) => name === container)?.ports?.[0]?.containerPort
  return { ...settings, container, port: typeof port === 'number' ? port : undefined }
}

/** The name of a Service resolves only inside the cluster. */
function checkLoadTarget(
  { through, loadFrom = 'cluster' }: Pick<KubernetesSpec, 'through' | 'loadFrom'>,
  report: Context['report'],
): void {
  if (through === 'service' && loadFrom !== 'cluster')
    report(
      ['kubernetes', 'through'],
      `kubernetes.through with loadFrom ${loadFrom}: a Service can be reached only from inside the cluster`,
      'remove loadFrom',
    )
}

/**
 * A pod template with an image is the user's own predictor; one without an image is an overlay for
 * the pod of the built-in predictor.
 */
export const isUserPredictor = (pod: Readonly<Record<string, unknown>> | undefined): boolean =>
  pod !== undefined && listContainers(pod).some(({ image }) => image !== undefined)

/** An overlay may change a generated pod, but must not add a container. */
function checkOverlay(
  overlay: Readonly<Record<string, unknown>>,
  key: 'pod' | 'job',
  container: string,
  report: Context['report'],
): void {
  const at = ['kubernetes', key]
  for (const name of Object.keys(overlay).filter((name) => name !== 'metadata' && name !== 'spec'))
    report(
      [...at, name],
      `kubernetes.${key}: '${name}' is not part of a pod template`,
      'use metadata and spec',
    )
  for (const part of ['metadata', 'spec'])
    if (
      overlay[part] !== undefined &&
      (typeof overlay[part] !== 'object' || overlay[part] === null || Array.isArray(overlay[part]))
    )
      report(
        [...at, part],
        `kubernetes.${key}.${part}: expected an object`,
        `write, for example, ${key}: {spec: {tolerations: [...]}}`,
      )
  const containers = (overlay.spec as { containers?: unknown } | null | undefined)?.containers
  if (containers === undefined) return
  for (const name of Array.isArray(containers)
    ? containers.map((one: Container | null) => one?.name)
    : [undefined])
    if (name !== container)
      report(
        [...at, 'spec', 'containers'],
        `kubernetes.${key}: ${name === undefined ? 'a container without a name' : `container ${name} has no image`}`,
        `its own container is called ${container}${key === 'pod' ? '; your own server needs an image' : ''}`,
      )
}

/** Named containers of a pod template. */
export function listContainers(pod: Readonly<Record<string, unknown>>): Container[] {
  const spec = pod.spec as { containers?: unknown } | null | undefined
  if (!Array.isArray(spec?.containers)) return []
  return (spec.containers as (Container | null)[]).filter(
    (container): container is Container => typeof container?.name === 'string',
  )
}

/** Checks what the user's own pod says of its GPU and of other stages. */
export function checkPod(context: Context, space: SearchSpace): void {
  checkPodGpu(context, space)
  checkPodCalls(context)
}

/** A stage of a pipeline receives the addresses of the stages that it calls, and of no others. */
function checkPodCalls({ entries: { kubernetes = {} }, report, host }: Context): void {
  const containers = listContainers(kubernetes.pod ?? {})
  const tuned = containers.find(({ name }) => name === kubernetes.container) ?? containers[0]
  if (tuned === undefined) return
  const { command, args, env } = tuned
  const names = new Set(findPlaceholders(JSON.stringify([command, args, env])))
  const { calledStages = [] } = host
  const known = new Set<string>(calledStages.map(formatStagePlaceholder))
  for (const name of names)
    if (isStagePlaceholder(name) && !known.has(name))
      report(
        ['kubernetes', 'pod'],
        `kubernetes.pod: unknown placeholder \${${name}}`,
        known.size === 0 ? 'this stage calls no other' : `known: ${[...known].join(', ')}`,
      )
  for (const name of known)
    if (!names.has(name))
      report(
        ['kubernetes', 'pod'],
        `kubernetes.pod: the address ${name} never reaches the predictor`,
        `put \${${name}} into command, args or env of container ${tuned.name}`,
      )
}

/** A pod with GPUs has a price only if their model is known. */
function checkPodGpu({ report }: Context, space: SearchSpace): void {
  const has = (name: string) => space.parameters.some((parameter) => parameter.name === name)
  if (has('gpus') && !has('gpu'))
    report(
      ['kubernetes', 'pod'],
      'the pod requests a GPU, but its model is unknown',
      'set it: --gpus T4, or --pin gpu=T4',
    )
}

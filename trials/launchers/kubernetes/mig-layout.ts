/**
 * Cuts the GPUs of nodes that the user named, by what NVIDIA's MIG manager reads, and has them as
 * they were again afterwards.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Node, V1Pod } from '@kubernetes/client-node'
import { LaunchError } from '../../types.ts'
import { type Api, ApiError } from './api.ts'
import { quantity } from './failures.ts'
import { configLabel, impossibleLayout, offersLayout, stateLabel } from './mig-config.ts'

/** What a node was cut into before; on the node, for a tuner that was killed cannot remember. */
const beforeAnnotation = 'tune/mig-config-before'

/** What NVIDIA's operator gives a node that nobody told anything. */
const uncut = 'all-disabled'

interface CutOptions {
  /** For a node to be cut, ms. Boards are reset, or their node is restarted. */
  readonly timeoutMs?: number
  /** From there to its slices being offered, ms. */
  readonly offeredMs?: number
  readonly lookMs?: number
  readonly signal?: AbortSignal
}

interface CutNodes {
  /** What was done to whom, and how to undo it by hand. */
  readonly notices: readonly string[]
  /** Tells the nodes to be as they were; does not wait for it. Idempotent. @throws ApiError */
  restore(): Promise<void>
}

/**
 * Tells each node its layout, and waits until its slices are there. All are checked before the
 * first is changed, and where one fails all are told to go back.
 * @param layouts node → name of a layout that the MIG manager knows, e.g. 'all-1g.5gb'
 * @throws LaunchError for a node that cannot be cut so, is in use, or fails to be cut in time;
 * ApiError
 */
export async function cutNodes(
  api: Api,
  layouts: Readonly<Record<string, string>>,
  options: CutOptions = {},
): Promise<CutNodes> {
  const found: { name: string; layout: string; before: string }[] = []
  for (const [name, layout] of Object.entries(layouts)) {
    const before = await checked(api, name, layout, options.signal)
    if (before !== undefined) found.push({ name, layout, before })
  }
  const changed = new Map<string, string>()
  const restore = async () => {
    for (const [name, before] of [...changed]) {
      await label(api, name, before, null)
      changed.delete(name)
    }
  }
  try {
    for (const { name, layout, before } of found) {
      changed.set(name, before)
      await label(api, name, layout, before, options.signal)
    }
    for (const { name, layout } of found) await untilCut(api, name, layout, options)
  } catch (error) {
    await restore()
    throw error
  }
  return {
    notices: found.map(
      ({ name, layout, before }) =>
        `Node ${name} is cut as ${layout} for this run, and told ${before} at its end. A tuner that is killed leaves it so: kubectl label node ${name} ${configLabel}=${before} --overwrite`,
    ),
    restore,
  }
}

/** @returns what it goes back to; undefined: it is cut so already, and not by a run of ours */
async function checked(
  api: Api,
  name: string,
  layout: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const node = await nodeOf(api, name, signal)
  const { labels = {}, annotations = {} } = node.metadata ?? {}
  const impossible = impossibleLayout(labels, layout)
  if (impossible !== undefined)
    throw new LaunchError(
      `node ${name} cannot be cut as ${layout}: ${impossible}`,
      'name another layout',
    )
  const left = annotations[beforeAnnotation]
  if (labels[configLabel] === layout && labels[stateLabel] === 'success') return left
  if (labels[stateLabel] === undefined && labels['nvidia.com/mig.capable'] !== 'true')
    throw new LaunchError(
      `node ${name}: nothing there cuts GPUs (no label ${stateLabel}, nor nvidia.com/mig.capable=true)`,
      "--configure-mig needs the MIG manager of NVIDIA's GPU operator, and GPUs that can be cut",
    )
  const holders = await holdersOf(api, name, signal)
  if (holders.length > 0)
    throw new LaunchError(
      `node ${name} cannot be cut anew: ${holders.join(', ')} hold its GPUs`,
      'end them, or name another node',
    )
  return left ?? labels[configLabel] ?? uncut
}

async function nodeOf(api: Api, name: string, signal?: AbortSignal): Promise<V1Node> {
  try {
    return await api.request<V1Node>('GET', `/api/v1/nodes/${name}`, { signal })
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    throw new LaunchError(`the cluster has no node ${name}`, 'kubectl get nodes lists them')
  }
}

/** Pods with GPUs on a node, as namespace/name. */
async function holdersOf(api: Api, node: string, signal?: AbortSignal): Promise<string[]> {
  const query = { fieldSelector: `spec.nodeName=${node}` }
  const { items } = await api.request<{ items: V1Pod[] }>('GET', '/api/v1/pods', { query, signal })
  const holds = ({ spec, status }: V1Pod) =>
    spec?.nodeName === node &&
    !['Succeeded', 'Failed'].includes(status?.phase ?? '') &&
    spec.containers.some(({ resources }) =>
      Object.entries(resources?.limits ?? {}).some(
        ([resource, amount]) => /^nvidia\.com\/(gpu|mig-)/.test(resource) && quantity(amount) > 0,
      ),
    )
  return items.filter(holds).map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`)
}

/** The state is taken back with it: what is read next is said of this layout. */
const label = (
  api: Api,
  name: string,
  layout: string,
  before: string | null,
  signal?: AbortSignal,
): Promise<unknown> =>
  api.request('PATCH', `/api/v1/nodes/${name}`, {
    body: {
      metadata: {
        labels: { [configLabel]: layout, [stateLabel]: 'pending' },
        annotations: { [beforeAnnotation]: before },
      },
    },
    signal,
  })

async function untilCut(
  api: Api,
  name: string,
  layout: string,
  options: CutOptions,
): Promise<void> {
  const { timeoutMs = 15 * 60_000, offeredMs = 2 * 60_000, lookMs = 2_000, signal } = options
  const startedMs = performance.now()
  let cutMs: number | undefined
  for (;;) {
    const node = await nodeOf(api, name, signal)
    const { [configLabel]: told, [stateLabel]: state = 'pending' } = node.metadata?.labels ?? {}
    const said = `node ${name}: ${configLabel}=${told}`
    if (told !== layout)
      throw new LaunchError(
        `${said} was set by somebody else, in place of ${layout}`,
        'leave its layout to one of them',
      )
    if (state === 'failed')
      throw new LaunchError(
        `${said} failed: the log of NVIDIA's MIG manager says why`,
        'does its configuration have that layout?',
      )
    const nowMs = performance.now()
    if (state === 'success') {
      if (offersLayout(node, layout)) return
      cutMs ??= nowMs
      if (nowMs - cutMs > offeredMs)
        throw new LaunchError(
          `${said} is done, and the device plugin offers no such slice`,
          'set its MIG strategy to mixed or single',
        )
    } else if (nowMs - startedMs > timeoutMs)
      throw new LaunchError(
        `${said} is ${state} after ${Math.round(timeoutMs / 60_000)} min`,
        'is the MIG manager running there, and nobody else on its GPUs?',
      )
    await sleep(lookMs, undefined, { signal })
  }
}

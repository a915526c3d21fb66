/**
 * A small API server in this process: pods, Jobs, ConfigMaps, events, watches and logs of one
 * namespace, enough to run trials against it and to have it fail on purpose. Its pods are servers
 * of this process. It validates nothing: what a real server accepts is tested on one.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import { Api, type ApiTimeouts } from '../api/api.ts'

const kinds = [
  'pods',
  'jobs',
  'leases',
  'configmaps',
  'secrets',
  'events',
  'nodes',
  'resourceclaimtemplates',
  'resourceclaims',
  'resourceslices',
  'deviceclasses',
  'services',
] as const
type Kind = (typeof kinds)[number]
interface Stored {
  metadata: {
    name: string
    uid: string
    resourceVersion: string
    labels?: Record<string, string>
    deletionTimestamp?: string
    creationTimestamp: string
  }
  [key: string]: unknown
}

/** What happens to a request in place of an answer. Return true when it was dealt with. */
export type Fault = (
  request: { method: string; path: string; query: URLSearchParams },
  response: ServerResponse,
) => boolean

/** Decides what becomes of a pod that was created: called once for each. */
export type Kubelet = (pod: V1Pod, set: (status: Partial<V1Pod['status']>) => void) => void

/** Does the work of a Job's pod: prints, and returns the exit code. */
export type JobWork = (job: V1Job, print: (text: string) => void) => Promise<number>

export class FakeApiServer {
  readonly objects = Object.fromEntries(kinds.map((kind) => [kind, new Map()])) as Record<
    Kind,
    Map<string, Stored>
  >
  readonly seen: string[] = []
  fault: Fault | undefined
  kubelet: Kubelet = () => {}
  /** Told of every Job. */
  jobMade: (name: string) => void = () => {}
  /** Absent: Jobs make no pods. */
  jobWork: JobWork | undefined
  log = ''
  /** Of resource.k8s.io; none: a server without dynamic resource allocation. */
  draVersions: readonly string[] = []
  private version = 1
  private server: Server | undefined
  private port = 0
  /** Of pods and events, in order: a watch is told what came after the version it starts from. */
  private readonly history: { version: number; kind: Kind; type: string; object: Stored }[] = []
  /** Logs that are followed, until their pod ends. */
  private readonly logs = new Map<ServerResponse, string>()
  /** What pods of Jobs have printed. */
  private readonly printed = new Map<string, string>()
  private readonly watchers = new Set<{ response: ServerResponse; kind: Kind; selector: string }>()

  async start(): Promise<void> {
    this.server = createServer((request, response) => void this.handle(request, response)).listen(
      this.port,
      '127.0.0.1',
    )
    await once(this.server, 'listening')
    this.port = (this.server.address() as AddressInfo).port
  }

  /** As an API server that restarts: every connection ends, and for a while nobody listens. */
  async stop(): Promise<void> {
    this.server?.close()
    this.server?.closeAllConnections()
    this.watchers.clear()
    if (this.server) await once(this.server, 'close')
    this.server = undefined
  }

  /**
   * Ends every watch with an event, or silently keeps them open and tells them nothing from now on.
   */
  endWatches(how: 'gone' | 'silence'): void {
    for (const { response } of this.watchers) {
      if (how === 'gone')
        response.end(
          `${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old resource version' } })}\n`,
        )
    }
    this.watchers.clear()
  }

  async api(timeouts?: Partial<ApiTimeouts>): Promise<Api> {
    const { KubeConfig } = await import('@kubernetes/client-node')
    const config = new KubeConfig()
    config.loadFromOptions({
      clusters: [{ name: 'fake', server: `http://127.0.0.1:${this.port}`, skipTLSVerify: true }],
      users: [{ name: 'me' }],
      contexts: [{ name: 'fake', cluster: 'fake', user: 'me' }],
      currentContext: 'fake',
    })
    return new Api(config, 'test', {
      requestMs: 2_000,
      retryMs: 5_000,
      firstBackoffMs: 10,
      firstContactMs: 2_000,
      ...timeouts,
    })
  }

  setStatus(name: string, status: Partial<V1Pod['status']>): void {
    const pod = this.objects.pods.get(name)
    if (!pod) return
    this.put('pods', { ...pod, status: { ...(pod.status as object), ...status } }, 'MODIFIED')
  }

  remove(kind: Kind, name: string): void {
    const object = this.objects[kind].get(name)
    if (!object) return
    this.objects[kind].delete(name)
    this.version++
    if (kind === 'pods') this.tell(kind, 'DELETED', object)
    if (kind === 'jobs') this.remove('pods', podOf(name))
  }

  /** As the Job controller and the kubelet: one pod, which runs until its work is done. */
  private async work(job: Stored): Promise<void> {
    const { metadata, spec } = job as unknown as V1Job
    const { template } = spec!
    const name = podOf(metadata!.name!)
    const labels = { ...template.metadata?.labels, 'batch.kubernetes.io/job-name': metadata!.name! }
    const made = {
      name,
      uid: randomUUID(),
      resourceVersion: '',
      labels,
      creationTimestamp: new Date().toISOString(),
    }
    const status = (phase: string, state: object) => ({
      phase,
      podIP: '127.0.0.1',
      conditions: [{ type: 'PodScheduled', status: 'True' }],
      containerStatuses: [
        {
          name: template.spec!.containers[0]!.name,
          image: 'i',
          imageID: '',
          ready: true,
          restartCount: 0,
          state,
        },
      ],
    })
    this.put(
      'pods',
      { metadata: made, spec: template.spec, status: status('Running', { running: {} }) },
      'ADDED',
    )
    const exitCode = await this.jobWork!(job as unknown as V1Job, (text) => this.print(name, text))
    this.setStatus(
      name,
      status(exitCode === 0 ? 'Succeeded' : 'Failed', {
        terminated: { exitCode },
      }) as V1Pod['status'] & object,
    )
  }

  private print(pod: string, text: string): void {
    this.printed.set(pod, (this.printed.get(pod) ?? '') + text)
    for (const [response, follows] of this.logs) if (follows === pod) response.write(text)
  }

  put(kind: Kind, object: Stored, type: 'ADDED' | 'MODIFIED'): Stored {
    const stored = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(++this.version) },
    }
    this.objects[kind].set(stored.metadata.name, stored)
    if (kind === 'pods' || kind === 'events') this.tell(kind, type, stored)
    return stored
  }

  /**
   * An event about an object, as the cluster says it. Of the same reason: the one before, said
   * again.
   */
  say(name: string, reason: string, message: string, more: object = {}): void {
    const event = `${name}.${reason}`
    const said = {
      reason,
      message,
      lastTimestamp: new Date().toISOString(),
      involvedObject: { name },
      ...more,
    }
    const metadata = {
      name: event,
      uid: '',
      resourceVersion: '',
      creationTimestamp: new Date().toISOString(),
    }
    this.put('events', { metadata, ...said }, this.objects.events.has(event) ? 'MODIFIED' : 'ADDED')
  }

  private tell(kind: Kind, type: string, object: Stored): void {
    for (const [response, pod] of this.logs) {
      if (pod !== object.metadata.name || (type !== 'DELETED' && runs(object))) continue
      response.end()
      this.logs.delete(response)
    }
    this.history.push({ version: this.version, kind, type, object })
    for (const { response, kind: watched, selector } of this.watchers)
      if (watched === kind && matches(object, selector))
        response.write(`${JSON.stringify({ type, object })}\n`)
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, 'http://fake')
    const method = request.method!
    this.seen.push(`${method} ${url.pathname}${url.searchParams.has('watch') ? ' (watch)' : ''}`)
    if (this.fault?.({ method, path: url.pathname, query: url.searchParams }, response)) return
    const version = /^\/apis\/resource\.k8s\.io\/([^/]+)/.exec(url.pathname)?.[1]
    if (url.pathname === '/version') return answer(response, 200, { gitVersion: 'v1.34.0' })
    if (url.pathname === '/apis/resource.k8s.io' && this.draVersions.length > 0)
      return answer(response, 200, {
        versions: this.draVersions.map((one) => ({
          version: one,
          groupVersion: `resource.k8s.io/${one}`,
        })),
      })
    const [, kind, name, sub] = pathPattern.exec(url.pathname) ?? []
    if (kind === undefined || (version !== undefined && !this.draVersions.includes(version)))
      return answer(response, 404, status(404, 'NotFound', `the fake has no ${url.pathname}`))
    const all = this.objects[kind as Kind]
    if (sub === 'log') {
      response.write(this.log + (this.printed.get(name!) ?? ''))
      const over = url.searchParams.get('follow') !== 'true' || !runs(all.get(name!))
      if (over) response.end()
      else this.logs.set(response, name!)
      return
    }
    if (method === 'POST') {
      const body = JSON.parse(await textOf(request)) as Stored
      if (all.has(body.metadata.name))
        return answer(
          response,
          409,
          status(409, 'AlreadyExists', `${kind} "${body.metadata.name}" already exists`),
        )
      const metadata = {
        ...body.metadata,
        uid: randomUUID(),
        creationTimestamp: new Date().toISOString(),
      }
      if (url.searchParams.get('dryRun') === 'All')
        return answer(response, 201, { ...body, metadata })
      const stored = this.put(
        kind as Kind,
        { ...body, metadata, ...(kind === 'pods' && { status: { phase: 'Pending' } }) },
        'ADDED',
      )
      answer(response, 201, stored)
      if (kind === 'jobs') this.jobMade(stored.metadata.name)
      if (
        kind === 'jobs' &&
        this.jobWork &&
        (stored.spec as { parallelism?: number }).parallelism !== 0
      )
        void this.work(stored)
      if (kind === 'pods')
        this.kubelet(stored as unknown as V1Pod, (given) =>
          this.setStatus(stored.metadata.name, given),
        )
      return
    }
    if (name !== undefined) {
      const object = all.get(name)
      if (!object)
        return answer(response, 404, status(404, 'NotFound', `${kind} "${name}" not found`))
      if (method === 'DELETE') this.remove(kind as Kind, name)
      if (method === 'PATCH') {
        const patch = JSON.parse(await textOf(request)) as Partial<Stored>
        const { resourceVersion = object.metadata.resourceVersion, uid = object.metadata.uid } =
          patch.metadata ?? {}
        if (resourceVersion !== object.metadata.resourceVersion || uid !== object.metadata.uid)
          return answer(
            response,
            409,
            status(409, 'Conflict', `${kind} "${name}" has been modified`),
          )
        return answer(
          response,
          200,
          this.put(kind as Kind, mergePatched(object, patch) as Stored, 'MODIFIED'),
        )
      }
      return answer(response, 200, object)
    }
    const selector = url.searchParams.get('labelSelector') ?? ''
    if (url.searchParams.has('watch')) {
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
      const from = Number(url.searchParams.get('resourceVersion'))
      for (const { version, kind: told, type, object } of this.history) {
        if (told === kind && version > from && matches(object, selector))
          response.write(`${JSON.stringify({ type, object })}\n`)
      }
      const watcher = { response, kind: kind as Kind, selector }
      this.watchers.add(watcher)
      response.on('close', () => this.watchers.delete(watcher))
      setTimeout(
        () => this.watchers.delete(watcher) && response.end(),
        Number(url.searchParams.get('timeoutSeconds')) * 1000,
      ).unref()
      return
    }
    const items = [...all.values()].filter((object) => matches(object, selector))
    answer(response, 200, {
      kind: 'List',
      metadata: { resourceVersion: String(this.version) },
      items,
    })
  }
}

const pathPattern = new RegExp(`/(${kinds.join('|')})(?:/([^/]+))?(?:/(log|status))?$`)

/** RFC 7386. */
function mergePatched(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const merged: Record<string, unknown> =
    typeof target === 'object' && target !== null ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = mergePatched(merged[key], value)
  }
  return merged
}

const podOf = (job: string) => `${job}-pod`

const runs = (pod: Stored | undefined): boolean => {
  const { containerStatuses } = (pod?.status ?? {}) as NonNullable<V1Pod['status']>
  return containerStatuses?.some(({ state }) => state?.running) === true
}

export const status = (code: number, reason: string, message: string) => ({
  kind: 'Status',
  status: 'Failure',
  code,
  reason,
  message,
})

export const answer = (
  response: ServerResponse,
  code: number,
  body: unknown,
  headers: Record<string, string> = {},
): void => {
  response
    .writeHead(code, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify(body))
}

const matches = ({ metadata }: Stored, selector: string): boolean =>
  selector
    .split(',')
    .filter(Boolean)
    .every((pair) => metadata.labels?.[pair.split('=')[0]!] === pair.split('=')[1])

const textOf = async (request: IncomingMessage): Promise<string> => {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

/**
 * Load by the way of users' requests on a real cluster: a trial's Service, and a gateway that goes
 * by its HTTPRoute.
 */
import { writeFileSync } from 'node:fs'
import { request as ask, createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import { CliBox } from '../testing/run-cli.ts'

let namespace: TestNamespace
let box: CliBox
beforeAll(async () => {
  namespace = await createNamespace()
})
afterAll(() => namespace?.remove())
beforeEach(() => {
  box = new CliBox()
})
afterEach(async () => {
  box.dispose()
  expect(await namespace.leftovers()).toEqual([])
})

interface Trial {
  readonly state: string
  readonly error?: string
  readonly measurement?: {
    readonly caveats: readonly string[]
    readonly detour?: {
      readonly by: string
      readonly way: { readonly requests: number }
      readonly direct?: { readonly requests: number }
    }
  }
}
const run = async (kubernetes: object) => {
  const document = {
    model: 'bert',
    slo: '300ms',
    backend: 'kubernetes',
    devices: 'emulated',
    space: { cpuCores: [0.3], memoryMiB: [400], gpu: ['T4'], batchSize: [1] },
    kubernetes: { image: testImage(), namespace: namespace.name, ...kubernetes },
    budget: { maxTrials: 1 },
    load: { trialTime: '2s' },
    confirm: false,
  }
  writeFileSync(join(box.folder, 'experiment.yaml'), JSON.stringify(document))
  const { code, stdout, stderr } = await box.run(['-f', 'experiment.yaml', '--events'])
  expect(code, stderr + stdout.slice(-1500)).toBe(0)
  const events = stdout
    .trim()
    .split('\n')
    .map(
      (line) =>
        JSON.parse(line) as {
          readonly trial?: Trial
          readonly recommendation?: { readonly caveats: readonly string[] }
        },
    )
  const [trial] = events.flatMap((event) => event.trial ?? [])
  const caveats = events.flatMap(({ recommendation }) => recommendation?.caveats ?? [])
  return { trial, caveats }
}

test('a Service of the trial, by its name, and what it adds', async () => {
  const { trial, caveats } = await run({ through: 'service' })
  expect(trial).toMatchObject({
    state: 'complete',
    measurement: { detour: { by: 'the Service', direct: {} } },
  })
  const { way, direct } = trial!.measurement!.detour!
  expect(Math.min(way.requests, direct!.requests)).toBeGreaterThan(5)
  console.info(caveats.find((text) => text.startsWith('measured through')))
  expect(caveats.join('\n')).toContain('measured through the Service: p50')
})

/** Stands for the Gateway API's own, whose controllers this cluster has none of. */
const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: 'httproutes.gateway.networking.k8s.io',
    annotations: {
      'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/gateway-api/pull/2055',
    },
  },
  spec: {
    group: 'gateway.networking.k8s.io',
    scope: 'Namespaced',
    names: {
      kind: 'HTTPRoute',
      plural: 'httproutes',
      singular: 'httproute',
      listKind: 'HTTPRouteList',
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          },
        },
      },
    ],
  },
}

interface Route {
  readonly spec: {
    readonly parentRefs: readonly { readonly name: string }[]
    readonly hostnames: readonly string[]
    readonly rules: readonly {
      readonly backendRefs: readonly { readonly name: string; readonly port: number }[]
    }[]
  }
}

/**
 * A gateway beside the cluster: it finds the HTTPRoute that the header names, and its Service's
 * address.
 */
async function gateway(
  host: string,
): Promise<{ readonly server: Server; readonly seen: Set<string> }> {
  const { api, name } = namespace
  const seen = new Set<string>()
  const backends = new Map<string, Promise<{ host: string; port: number }>>()
  const backendOf = async (trial: string) => {
    const { spec } = await api.request<Route>(
      'GET',
      `/apis/gateway.networking.k8s.io/v1/namespaces/${name}/httproutes/${trial}`,
    )
    const [{ name: service, port } = { name: '', port: 0 }] = spec.rules[0]!.backendRefs
    seen.add(`${spec.parentRefs[0]!.name} ${spec.hostnames[0]}`)
    const { spec: found } = await api.request<{ spec: { clusterIP: string } }>(
      'GET',
      `/api/v1/namespaces/${name}/services/${service}`,
    )
    return { host: found.clusterIP, port }
  }
  const server = createServer((request, response) => {
    const trial = String(request.headers['x-tune-trial'])
    if (!backends.has(trial)) backends.set(trial, backendOf(trial))
    backends.get(trial)!.then(
      ({ host, port }) => {
        const { method, url: path, headers } = request
        const onward = ask({ host, port, method, path, headers }, (answer) => {
          response.writeHead(answer.statusCode!, answer.headers)
          answer.pipe(response)
        })
        onward.on('error', () => response.destroy())
        request.pipe(onward)
      },
      () => {
        backends.delete(trial)
        response.writeHead(404).end()
      },
    )
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return { server, seen }
}

test('a gateway, by an HTTPRoute of the trial', async ({ skip }) => {
  // Pods reach this machine by the address that the cluster's own server has for them.
  const host = new URL(namespace.api.server).hostname
  if (host === '127.0.0.1') skip('pods do not reach this machine')
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
  await namespace.api.request('POST', definitions, { body: definition })
  const routes = `/apis/gateway.networking.k8s.io/v1/namespaces/${namespace.name}/httproutes`
  const left = async () => (await namespace.api.request<{ items: unknown[] }>('GET', routes)).items
  try {
    await until(async () =>
      left().then(
        () => true,
        () => false,
      ),
    )
    const { server, seen } = await gateway(host)
    try {
      const { port } = server.address() as { port: number }
      const url = `http://${host}:${port}`
      const { trial } = await run({
        through: {
          gateway: url,
          headers: { host: 'bert.example' },
          parent: { name: 'public', namespace: 'edge' },
        },
      })
      expect(trial).toMatchObject({
        state: 'complete',
        measurement: { detour: { by: `the gateway ${url}` } },
      })
      expect([...seen]).toEqual(['public bert.example'])
      expect(await left()).toEqual([])
    } finally {
      server.closeAllConnections()
      server.close()
    }
  } finally {
    await namespace.api.request('DELETE', `${definitions}/${definition.metadata.name}`)
  }
})

/** A namespace of the real cluster for one test file. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Api, ApiError } from '../api/api.ts'
import { connect } from '../api/connect.ts'

export interface TestNamespace {
  readonly api: Api
  readonly name: string
  /** Everything in it that trials could have left, as kind/name. */
  leftovers(): Promise<string[]>
  /** Deletes it and waits until it is gone. */
  remove(): Promise<void>
}

export const testImage = (): string => {
  const image = process.env.TUNE_K8S_IMAGE
  if (!image) throw new Error('TUNE_K8S_IMAGE is not set: run npm run test:k8s')
  return image
}

export async function createNamespace(): Promise<TestNamespace> {
  const name = `tune-test-${randomBytes(3).toString('hex')}`
  const api = await connect(name)
  await api.request('POST', '/api/v1/namespaces', {
    body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
  })
  // Pods are refused until the namespace has its service account.
  await until(async () => (await names(api, '/api/v1', 'serviceaccounts')).includes('default'))
  return {
    api,
    name,
    leftovers: async () => {
      const kinds = [
        ['/api/v1', 'pods'],
        ['/apis/batch/v1', 'jobs'],
        ['/api/v1', 'services'],
        ['/apis/apps/v1', 'deployments'],
        ['/api/v1', 'configmaps'],
        ['/apis/coordination.k8s.io/v1', 'leases'],
      ] as const
      const found = await Promise.all(
        kinds.map(async ([group, kind]) =>
          (await names(api, group, kind)).map((object) => `${kind}/${object}`),
        ),
      )
      return found.flat().filter((object) => object !== 'configmaps/kube-root-ca.crt')
    },
    remove: async () => {
      await api.request('DELETE', `/api/v1/namespaces/${name}`)
      await until(async () => {
        try {
          await api.request('GET', `/api/v1/namespaces/${name}`)
          return false
        } catch (error) {
          if (error instanceof ApiError && error.status === 404) return true
          throw error
        }
      })
      api.close()
    },
  }
}

async function names(api: Api, group: string, kind: string): Promise<string[]> {
  const { items } = await api.request<{ items: { metadata: { name: string } }[] }>(
    'GET',
    `${group}/namespaces/${api.namespace}/${kind}`,
  )
  return items.map(({ metadata }) => metadata.name)
}

/**
 * Asks again and again.
 * @throws after 90 s
 */
export async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 90_000
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error('waited 90 s in vain')
    await sleep(200)
  }
}

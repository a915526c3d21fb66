/**
 * Pod Security's profile `restricted` for one namespace of a server that has none (before 1.23): a
 * validating webhook of this process.
 */
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { V1Pod } from '@kubernetes/client-node'
import { testCertificate, testKey } from '../../../../profiler/testing/certificate.ts'
import type { TestNamespace } from './namespace.ts'
import { restrictedViolations } from './restricted.ts'

interface Review {
  readonly request: { readonly uid: string; readonly object: V1Pod }
}

/** @returns what ends it; and every refusal so far */
export async function restrict({
  api,
  name,
}: TestNamespace): Promise<{ readonly refusals: readonly string[]; end(): Promise<void> }> {
  const refusals: string[] = []
  const server = createServer({ cert: testCertificate, key: testKey }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { uid, object } = (JSON.parse(Buffer.concat(chunks).toString()) as Review).request
      const violations = restrictedViolations(object.spec!)
      const message = `pods is forbidden: violates PodSecurity "restricted:latest": ${violations.join(', ')}`
      if (violations.length > 0) refusals.push(message)
      const answer = {
        uid,
        allowed: violations.length === 0,
        ...(violations.length > 0 && { status: { code: 403, message } }),
      }
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify({
          apiVersion: 'admission.k8s.io/v1',
          kind: 'AdmissionReview',
          response: answer,
        }),
      )
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const path = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations'
  const label = 'tune-test/restricted'
  await api.request('PATCH', `/api/v1/namespaces/${name}`, {
    body: { metadata: { labels: { [label]: name } } },
  })
  await api.request('POST', path, {
    body: {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name },
      webhooks: [
        {
          name: 'restricted.tune.test',
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          failurePolicy: 'Fail',
          namespaceSelector: { matchLabels: { [label]: name } },
          clientConfig: {
            url: `https://127.0.0.1:${port}/`,
            caBundle: Buffer.from(testCertificate).toString('base64'),
          },
          rules: [
            { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] },
          ],
        },
      ],
    },
  })
  return {
    refusals,
    end: async () => {
      await api.request('DELETE', `${path}/${name}`)
      server.closeAllConnections()
      server.close()
    },
  }
}

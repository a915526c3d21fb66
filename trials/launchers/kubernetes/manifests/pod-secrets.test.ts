import { expect, test } from 'vitest'
import { registerSecret } from '../../../secrets.ts'
import { extractSecrets } from './pod-secrets.ts'

const metadata = { name: 'tune-e-1', labels: { a: 'b' } }
const container = {
  name: 'main',
  image: 'i',
  env: [
    { name: 'API_KEY', value: 'planted-in-pod' },
    { name: 'DB', value: 'postgres://u:planted-in-pod@db/x' },
    { name: 'BATCH', value: '8' },
    { name: 'OTHER', valueFrom: { secretKeyRef: { name: 'mine', key: 'k' } } },
  ],
  command: ['serve', '--token', 'planted-in-pod', '--port=8000'],
}
const pod = {
  kind: 'Pod',
  spec: { initContainers: [{ name: 'first', args: ['planted-in-pod'] }], containers: [container] },
}

test('secrets of a pod stand in a Secret, which it names', () => {
  registerSecret('planted-in-pod')
  const { pod: shown, secret } = extractSecrets(pod, metadata)
  expect(JSON.stringify(shown)).not.toContain('planted')
  const ref = (key: string) => ({ secretKeyRef: { name: 'tune-e-1', key } })
  expect(shown.spec).toEqual({
    initContainers: [
      {
        name: 'first',
        args: ['$(TUNE_SECRET_WORD_1)'],
        env: [{ name: 'TUNE_SECRET_WORD_1', valueFrom: ref('secret-1') }],
      },
    ],
    containers: [
      {
        ...container,
        command: ['serve', '--token', '$(TUNE_SECRET_WORD_1)', '--port=8000'],
        env: [
          { name: 'API_KEY', valueFrom: ref('secret-1') },
          { name: 'DB', valueFrom: ref('secret-2') },
          { name: 'BATCH', value: '8' },
          container.env[3],
          { name: 'TUNE_SECRET_WORD_1', valueFrom: ref('secret-1') },
        ],
      },
    ],
  })
  expect(secret).toEqual({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    type: 'Opaque',
    stringData: { 'secret-1': 'planted-in-pod', 'secret-2': 'postgres://u:planted-in-pod@db/x' },
  })
})

test('a pod without any is as it was', () => {
  const plain = {
    kind: 'Pod',
    spec: { containers: [{ name: 'main', env: [{ name: 'BATCH', value: '8' }] }] },
  }
  expect(extractSecrets(plain, metadata)).toEqual({ pod: plain })
})

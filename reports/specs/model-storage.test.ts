/** Where weights may come from, and what a pod is made of for it. */
import { expect, test } from 'vitest'
import { renderSpec } from './index.ts'
import { serving, type Tree } from './spec-samples.contract.ts'
import { checkManifests } from './validate.contract.ts'

const podFrom = async (modelUri: string, server: 'triton' | 'mlserver' | 'builtin' = 'triton') => {
  const { objects, problems } = checkManifests(
    (await renderSpec('kubernetes', serving({ server, modelUri })))[0]!.text,
  )
  expect(problems).toEqual([])
  return (objects.find(({ kind }) => kind === 'Deployment') as unknown as Tree).spec!
    .template! as unknown as {
    metadata: { annotations?: Record<string, string> }
    spec: {
      initContainers?: unknown[]
      volumes: { name: string }[]
      containers: { volumeMounts: { name: string }[] }[]
    }
  }
}
const model = ({ spec }: Awaited<ReturnType<typeof podFrom>>) => ({
  volume: spec.volumes.find(({ name }) => name === 'model'),
  mount: spec.containers[0]!.volumeMounts.find(({ name }) => name === 'model'),
})

test('a bucket that a CSI driver mounts: its attributes, its folder, the sidecar that it asks for', async () => {
  const pod = await podFrom(
    'csi://gcsfuse.csi.storage.gke.io/bert/7?bucketName=models&mountOptions=implicit-dirs',
  )
  expect(model(pod)).toEqual({
    volume: {
      name: 'model',
      csi: {
        driver: 'gcsfuse.csi.storage.gke.io',
        readOnly: true,
        volumeAttributes: { bucketName: 'models', mountOptions: 'implicit-dirs' },
      },
    },
    mount: { name: 'model', mountPath: '/mnt/models', subPath: 'bert/7', readOnly: true },
  })
  expect(pod.metadata.annotations).toMatchObject({ 'gke-gcsfuse/volumes': 'true' })
  expect(pod.spec.initContainers).toBeUndefined()
})

test('an image of files is mounted as a volume; KServe takes it by its own name', async () => {
  const uri = 'oci://registry.example/models/bert:7'
  expect(model(await podFrom(uri)).volume).toEqual({
    name: 'model',
    image: { reference: 'registry.example/models/bert:7', pullPolicy: 'IfNotPresent' },
  })
  const kserve = (await renderSpec('kserve', serving({ server: 'triton', modelUri: uri })))[0]!.text
  expect(kserve).toContain(`storageUri: ${uri}`)
})

test('KServe mounts a CSI volume in a container of our own, and says that its runtimes cannot', async () => {
  const uri = 'csi://blob.csi.azure.com?containerName=models'
  const { objects, problems } = checkManifests(
    (await renderSpec('kserve', serving({ server: 'mlserver', modelUri: uri })))[0]!.text,
  )
  expect(problems).toEqual([])
  const text = JSON.stringify(objects)
  expect(text).toContain(
    '"csi":{"driver":"blob.csi.azure.com","readOnly":true,"volumeAttributes":{"containerName":"models"}}',
  )
  expect(text).not.toContain('STORAGE_URI')
  await expect(renderSpec('kserve', serving({ server: 'triton', modelUri: uri }))).rejects.toThrow(
    /KServe .* does not support csi:/,
  )
})

test.each([
  ['compose', 'csi://d.example/x', /Compose has no CSI drivers/],
  ['compose', 'oci://registry.example/x', /Compose cannot mount images/],
  ['seldon', 'oci://registry.example/x', /Seldon .* does not support oci:/],
  ['tfserving', 'csi://d.example/x', /a script cannot mount/],
  ['kubernetes', 'csi://d.example/../x', /cannot be fetched/],
  ['kubernetes', 'ftp://x/y', /cannot be fetched .*/],
] as const)('%s from %s is refused with a reason', async (target, modelUri, why) => {
  const server = target === 'compose' || target === 'kubernetes' ? 'mlserver' : 'tfserving'
  await expect(renderSpec(target, serving({ server, modelUri }))).rejects.toThrow(why)
})

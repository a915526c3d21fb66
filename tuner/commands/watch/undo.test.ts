import { expect, test } from 'vitest'
import { type Api, ApiError } from '../../../trials/launchers/kubernetes/api.ts'
import { undo, undoing } from './undo.ts'

const before = {
  metadata: { name: 'bert', resourceVersion: '7', annotations: { a: 'x' } },
  spec: { replicas: 2, template: { image: 1 } },
}
const after = {
  metadata: { name: 'bert', resourceVersion: '8', annotations: { a: 'x', 'tune/trial': '4' } },
  spec: { replicas: 2, template: { image: 2 } },
}
const paths = [
  ['metadata', 'annotations', 'tune/trial'],
  ['spec', 'replicas'],
  ['spec', 'template'],
]
const changes = undoing('Deployment', paths, before, after)

/**
 * A server that has this one object, and what it was sent; the first so many changes come too late.
 */
function serverWith(
  live: object | undefined,
  late = 0,
  refusal = new ApiError(409, 'Conflict', 'the object has been modified'),
) {
  const sent: unknown[] = []
  const request = async (method: string, _path: string, { body }: { body?: unknown }) => {
    if (method === 'GET') {
      if (live === undefined) throw new ApiError(404, 'NotFound', 'not found')
      return live
    }
    sent.push(body)
    if (sent.length <= late) throw refusal
    return {}
  }
  return { api: { namespace: 'n', request } as unknown as Api, sent }
}
const never = new AbortController().signal

test('only what differs, each of the version that was looked at', async () => {
  const { api, sent } = serverWith(after)
  expect(await undo(api, changes, never)).toEqual([])
  const version = { op: 'replace', path: '/metadata/resourceVersion', value: '8' }
  expect(sent).toEqual([
    [version, { op: 'remove', path: '/metadata/annotations/tune~1trial' }],
    [version, { op: 'add', path: '/spec/template', value: { image: 1 } }],
  ])
})

test('what was never changed, or is back already, is left; what somebody else changed is named', async () => {
  const same = serverWith(before)
  expect(await undo(same.api, changes, never)).toEqual([])
  expect(same.sent).toEqual([])
  const other = serverWith({ ...after, spec: { replicas: 2, template: { image: 3 } } })
  expect(await undo(other.api, changes, never)).toEqual([
    'Deployment bert: spec.template was changed by somebody else since, and is left so',
  ])
  const meanwhile = serverWith(after, 3)
  expect(await undo(meanwhile.api, changes, never)).toEqual([])
  expect(meanwhile.sent).toHaveLength(5)
  await expect(undo(serverWith(after, 99).api, changes, never)).rejects.toThrow('has been modified')
  await expect(
    undo(serverWith(after, 1, new ApiError(403, 'Forbidden', 'no')).api, changes, never),
  ).rejects.toThrow('no')
  expect(await undo(serverWith(undefined).api, changes.slice(0, 1), never)).toEqual([
    'Deployment bert is not there any more',
  ])
})

test('an object that the change makes stays', () => {
  expect(undoing('ConfigMap', [['data']], undefined, after)).toEqual([])
})

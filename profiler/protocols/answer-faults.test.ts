import { expect, test } from 'vitest'
import {
  findDocumentFault,
  findIdFault,
  findModelFault,
  findTensorsFault,
} from './answer-faults.ts'

const good = { name: 'y', datatype: 'FP32', shape: [2, 2], data: [1, 2, 3, 4] }
const declared = [{ name: 'y', datatype: 'FP32', shape: [-1, 2] }]

test('an output as declared, with one row per item, is good', () => {
  expect(findTensorsFault([good], declared, 2)).toBeUndefined()
  expect(findTensorsFault([good])).toBeUndefined()
  const detections = { name: 'y', datatype: 'FP32', shape: [0, 2], data: [] }
  expect(findTensorsFault([detections], declared, 3)).toBeUndefined()
  const column = { name: 'y', datatype: 'FP32', shape: [4, 1], data: [1, 2, 3, 4] }
  expect(findTensorsFault([column], [{ ...declared[0]!, shape: [-1] }], 4)).toBeUndefined()
  expect(findTensorsFault([column], [{ ...declared[0]!, shape: [-1, -1] }], 4)).toBeUndefined()
  expect(findTensorsFault([column], [{ ...declared[0]!, shape: [] }], 4)).toBeUndefined()
  expect(
    findTensorsFault([{ ...good, datatype: 'BYTES', data: ['a', 'b', 'c', 'd'] }]),
  ).toBeUndefined()
})

test.each([
  [[], 'without outputs'],
  [
    [{ name: 'b', datatype: 'BOOL', shape: [9], data: [] }],
    "its output 'b' has the shape [9] and 0 values",
  ],
  [[{ ...good, shape: [2, -2] }], "its output 'y' has the shape [2, -2]"],
  [[{ ...good, data: [1, 2, Number.NaN, 4] }], "its output 'y' holds NaN at 2"],
  [[{ ...good, data: [1, 2, null, 4] }], "its output 'y' is FP32 and holds null at 2"],
  [[{ ...good, data: [1, 2, 'NaN', 4] }], `its output 'y' is FP32 and holds "NaN" at 2`],
  [[{ ...good, datatype: 'BOOL' }], "its output 'y' is BOOL and holds 2 at 1"],
  [
    [{ ...good, datatype: 'INT64', data: [1, 2, 3.5, 4] }],
    "its output 'y' is INT64 and holds 3.5 at 2",
  ],
  [[{ ...good, name: 'z' }], "its output 'z' is none of the model's, which are y"],
  [[{ ...good, datatype: 'FP64' }], "its output 'y' is FP64, and the model's is FP32"],
  [[{ ...good, shape: [1, 4] }], "its output 'y' has the shape [1, 4], and the model's is [-1, 2]"],
  [[{ ...good, shape: [1, 2], data: [1, 2] }], "its output 'y' has 1 items, and the request 2"],
])('%j is not', (outputs, fault) => expect(findTensorsFault(outputs, declared, 2)).toBe(fault))

test('another model name or request id', () => {
  expect([
    findModelFault('m', 'm'),
    findModelFault(undefined, 'm'),
    findModelFault('', 'm'),
  ]).toEqual([undefined, undefined, undefined])
  expect(findModelFault('other', 'm')).toBe("from the model 'other', not 'm'")
  expect([findIdFault('1', '1'), findIdFault('', '1'), findIdFault('9', undefined)]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  expect(findIdFault('2', '1')).toBe("to the request '2', not '1'")
  // TorchServe numbers requests itself.
  expect(findIdFault('6f9619ff-8b86-d011-b42d-00cf4fc964ff', '1')).toBeUndefined()
})

test.each([
  [{ error: 'no such layer' }, 'with the error "no such layer"'],
  [
    { results: [{ label: 1 }, { error: { code: 7 } }] },
    `with the error of 'results'[1] {"code":7}`,
  ],
  [{ status: 'error', data: null }, "with the status 'error'"],
  [{ results: [{ status: 503 }] }, "with the status of 'results'[0] 503"],
  [{ errors: ['out of memory'] }, 'with the error "out of memory"'],
  [{ success: false }, 'with success: false'],
  [{ ok: false }, 'with ok: false'],
  [null, 'with null, which is no answer'],
  [{ exception: 'java.lang.OutOfMemoryError' }, 'with the error "java.lang.OutOfMemoryError"'],
  [{ fault: { faultstring: 'no route' } }, 'with the error {"faultstring":"no route"}'],
  [{ Error: 'ModelError' }, 'with the error "ModelError"'],
  [{ code: 500, message: 'boom' }, 'with the code 500: "boom"'],
  [{ detail: 'Not Found' }, 'with the error "Not Found"'],
  [{ score: 'NaN' }, "'score' holds NaN"],
  [{ scores: [0.1, null] }, "'scores' holds null in place of a number"],
  [
    {
      scores: [
        [0.1, 0.2],
        [null, null],
      ],
    },
    "'scores'[1] holds null in place of a number",
  ],
])('%j contains an error', (answer, fault) => expect(findDocumentFault(answer)).toBe(fault))

test.each([
  { label: 'good', score: 0.1 },
  { error: null, status: 'ok', code: 200 },
  { errors: [], items: [{ status: 200 }] },
  { text: 'an error occurred, says the page', tags: ['NaN is a word here'] },
  [1, 2, 3],
  'text',
  { code: 200, message: 'fine' },
  { code: 404 },
  { detail: 'a closer look', score: 0.5 },
  { label: null },
  { ok: true },
])('%j contains none', (answer) => expect(findDocumentFault(answer)).toBeUndefined())

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PayloadError } from '../profiler-errors.ts'
import {
  decodeBytesElements,
  decodeFloat16,
  decodeNumbers,
  encodeBytesElements,
  encodeFloat16,
  encodeNumbers,
} from './tensor-bytes.ts'

test.each<[string, (number | boolean)[], string]>([
  ['FP32', [1.5, -2], '0000c03f000000c0'],
  ['FP16', [1, -2, 65504, 100_000], '003c00c0ff7b007c'],
  // To the nearest, ties to even; below the normal numbers too.
  ['FP16', [1 + 2 ** -10 - 2 ** -20, 1 + 3 * 2 ** -11, 2 ** -24, Number.NaN], '013c023c0100007e'],
  ['BF16', [1, -2, 3.140625], '803f00c04940'],
  ['BF16', [1 + 2 ** -7 - 2 ** -15, 1 + 3 * 2 ** -8, Number.NaN], '813f823fc07f'],
  ['INT64', [-1], 'ffffffffffffffff'],
  ['UINT8', [0, 255], '00ff'],
  ['BOOL', [true, false], '0100'],
])('%s of %j, little-endian', (datatype, values, hex) => {
  expect(encodeNumbers(datatype, values).toString('hex')).toBe(hex)
})

test.each(['INT8', 'UINT16', 'INT32', 'INT64', 'UINT64', 'FP32', 'FP64'] as const)(
  '%s comes back from its bytes',
  (datatype) => {
    expect([...Array.from(decodeNumbers(datatype, encodeNumbers(datatype, [0, 1, 100])))]).toEqual([
      0, 1, 100,
    ])
  },
)

test('elements are led by their length', () => {
  expect(encodeBytesElements([Buffer.from('ab'), Buffer.alloc(0)])).toEqual(
    Buffer.from([2, 0, 0, 0, 0x61, 0x62, 0, 0, 0, 0]),
  )
})

test('property: elements come back, and bytes cut anywhere end in undefined', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 9 }), { minLength: 1, maxLength: 6 }),
      fc.nat(),
      (elements, cut) => {
        const bytes = encodeBytesElements(elements)
        expect(decodeBytesElements(bytes)).toEqual(elements.map((element) => Buffer.from(element)))
        const part = decodeBytesElements(bytes.subarray(0, cut % bytes.byteLength))
        const whole = part.filter((element) => element !== undefined)
        expect(whole).toEqual(
          elements.slice(0, whole.length).map((element) => Buffer.from(element)),
        )
      },
    ),
  )
})

test('an element type without values of its own is refused', () => {
  for (const name of ['COMPLEX64', 'toString'])
    expect(() => encodeNumbers(name, [1])).toThrow(PayloadError)
})

test('half precision rounds as IEEE 754 says and reads back what it wrote', () => {
  expect(
    [0, -0, 1, 65504, 65519, 65520, 2 ** -24, 2 ** -25, 1.5 * 2 ** -24, -2.5, Number.NaN].map(
      encodeFloat16,
    ),
  ).toEqual([0, 0x8000, 0x3c00, 0x7bff, 0x7bff, 0x7c00, 1, 0, 2, 0xc100, 0x7e00])
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 0xffff }),
      (half) => Number.isNaN(decodeFloat16(half)) || encodeFloat16(decodeFloat16(half)) === half,
    ),
  )
})

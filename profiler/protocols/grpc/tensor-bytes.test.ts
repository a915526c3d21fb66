import { expect, test } from 'vitest'
import { PayloadError } from '../../profiler-errors.ts'
import { bytesElements, numbersToBytes } from './tensor-bytes.ts'

test.each<[string, (number | boolean)[], string]>([
  ['FP32', [1.5, -2], '0000c03f000000c0'],
  ['FP16', [1, -2, 65504, 100_000], '003c00c0ff7b007c'],
  ['BF16', [1, -2, 3.140625], '803f00c04940'],
  ['INT64', [-1], 'ffffffffffffffff'],
  ['UINT8', [0, 255], '00ff'],
  ['BOOL', [true, false], '0100'],
])('%s of %j, little-endian', (datatype, values, hex) => {
  expect(numbersToBytes(datatype, values).toString('hex')).toBe(hex)
})

test('elements are led by their length', () => {
  expect(bytesElements([Buffer.from('ab'), Buffer.alloc(0)])).toEqual(Buffer.from([2, 0, 0, 0, 0x61, 0x62, 0, 0, 0, 0]))
})

test('an element type without values of its own is refused', () => {
  expect(() => numbersToBytes('COMPLEX64', [1])).toThrow(PayloadError)
})

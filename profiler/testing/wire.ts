/**
 * Protocol buffers by hand, for servers and recordings in tests: nothing here is shared with what
 * is tested.
 */
export type Field = readonly [number: number, value: number | string | Uint8Array]

function varint(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest > 127) {
    bytes.push((rest % 128) + 128)
    rest = Math.floor(rest / 128)
  }
  return [...bytes, rest]
}

/** A message of its fields in order: numbers as varints, texts and messages with their length. */
export function wire(...fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.map(([number, value]) => {
      if (typeof value === 'number') return Buffer.from([...varint(number * 8), ...varint(value)])
      const bytes = Buffer.from(value)
      return Buffer.concat([
        Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]),
        bytes,
      ])
    }),
  )
}

/** Length-delimited fields and varints of a message, by number. */
export function unwire(message: Uint8Array): Map<number, (Buffer | number)[]> {
  const fields = new Map<number, (Buffer | number)[]>()
  let at = 0
  const read = () => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = message[at++]
      if (byte === undefined) throw new Error('the message is cut off')
      value += (byte & 127) * shift
      if (byte < 128) return value
    }
  }
  while (at < message.length) {
    const key = read()
    const length = read()
    const delimited = (key & 7) === 2
    const list = fields.get(key >> 3) ?? []
    list.push(delimited ? Buffer.from(message.subarray(at, at + length)) : length)
    fields.set(key >> 3, list)
    if (delimited) at += length
  }
  return fields
}

import { expect, test } from 'vitest'
import { addAuthorization } from './predictor-protocol.ts'

const basic = `Basic ${Buffer.from('ann:p@ss:1').toString('base64')}`

test.each(['http://H', 'https://H', 'grpc://H:8001', 'grpcs://H', 'https://H/ml/prod'])(
  'user and password of %s are sent, by any protocol',
  (url) => {
    const given = url.replace('H', 'ann:p%40ss:1@h')
    expect(addAuthorization(given)).toEqual({ authorization: basic })
    expect(addAuthorization(given, { Authorization: 'Bearer x' })).toEqual({
      Authorization: 'Bearer x',
    })
    expect(addAuthorization(url.replace('H', 'h'), { a: 'b' })).toEqual({ a: 'b' })
  },
)

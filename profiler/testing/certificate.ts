/**
 * A self-signed certificate of localhost and 127.0.0.1 until 2126, for tests: its key is public.
 */
export const testCertificate = `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUXRt7xLjM9RlWtsMmNJAVncxhibMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMDE3MDA0OVoYDzIxMjYxMDI3
MTcwMDQ5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARo1QeDPg9MCVU7Zv5LfTx4X/nU3PomZayEq+IUmDshwAqNelCNiRm/
iT+0a+x1jKwV4Can4vtg//tUd+yucUkpo28wbTAdBgNVHQ4EFgQUxviiLtffq4rM
OpOdWhPsrQ8Hp7gwHwYDVR0jBBgwFoAUxviiLtffq4rMOpOdWhPsrQ8Hp7gwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDSAAwRQIgMC9P6Hisxbn1V3HsyK67rwbfkoTD1wZZQ5ygmlb76acCIQDY
iSuTNzXwFW+TvbmorCwSqCjMoia0qsqiIss2x6lSvw==
-----END CERTIFICATE-----
`
export const testKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUEz3Y0jHAHQvHW60
fGZfJdgM3wk7xME7Lf+1pxlJD66hRANCAARo1QeDPg9MCVU7Zv5LfTx4X/nU3Pom
ZayEq+IUmDshwAqNelCNiRm/iT+0a+x1jKwV4Can4vtg//tUd+yucUkp
-----END PRIVATE KEY-----
`

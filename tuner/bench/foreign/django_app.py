import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from sentiment import Refused, score

csrf = "django.middleware.csrf.CsrfViewMiddleware"
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", MIDDLEWARE=[csrf])


@csrf_exempt
def predict(request):
    if request.method != "POST":
        return JsonResponse({"error": "POST it"}, status=405)
    try:
        return JsonResponse(score(request.body))
    except Refused as error:
        return JsonResponse({"error": str(error)}, status=400)


urlpatterns = [path("api/predict", predict), path("health", lambda request: JsonResponse({}))]
django.setup()
app = get_wsgi_application()
